// Long names in tables, titles and sidebars break at their parts, not within a word.
const PARTS = /(?<=[a-z])(?=[A-Z][a-z])|(?<=[_.(,=])(?=\w)/;
const LONG = 14; // characters of a word that may break

function breakNames(element) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) found.push(texts.currentNode);
  for (const text of found) {
    const words = text.data.split(/(?<=\s)/);
    const nodes = words.flatMap((word) => {
      const parts = word.length > LONG ? word.split(PARTS) : [word];
      return parts.flatMap((part) => [document.createElement("wbr"), part]).slice(1);
    });
    text.replaceWith(...nodes);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const places = "td code, h1, dt, .prev-next-title, .bd-sidebar-primary li a, .bd-sidebar-secondary code";
  document.querySelectorAll(places).forEach(breakNames);
});
