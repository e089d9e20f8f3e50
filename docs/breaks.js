// Long names in tables, titles and the sidebar break at their parts, not within a word.
const PARTS = /(?<=[a-z])(?=[A-Z][a-z])|(?<=[_.(,=])(?=\w)/;

function breakNames(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) found.push(texts.currentNode);
  for (const text of found) {
    const parts = text.data.split(PARTS).flatMap((part) => [document.createElement("wbr"), part]);
    text.replaceWith(...parts.slice(1));
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("td code, h1, .bd-sidebar-primary li a").forEach(breakNames);
});
