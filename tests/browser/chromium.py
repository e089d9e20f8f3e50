"""Headless Chromium over a pipe: the DevTools protocol, with nothing to install for Python."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars
--disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage
--remote-debugging-pipe""".split()
# Chromium reads commands from file 3 and writes to file 4.
START = """import fcntl, os, sys
asks, answers = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3])
os.dup2(asks, 3), os.dup2(answers, 4)
os.execvp(sys.argv[3], sys.argv[3:])"""


def found():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a headless Chromium; `folder` holds its profile."""

    def __init__(self, folder):
        asks, self._ask = os.pipe()
        self._hear, answers = os.pipe()
        folder = f"--user-data-dir={folder}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(asks), str(answers)]
            + [found(), *FLAGS, folder, "about:blank"],
            pass_fds=(asks, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(asks), os.close(answers)
        self._number, self._rest, self._session, self.events = 0, b"", None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        os.close(self._ask), os.close(self._hear)

    def _message(self, deadline):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._hear], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(self._hear, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("Chromium does not answer")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        """The result of a command of the protocol; events before it are kept in `events`."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._ask, json.dumps(asked).encode() + b"\0")
        deadline = time.monotonic() + 60
        while (message := self._message(deadline)).get("id") != self._number:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def look(self, width, scheme="light", media="screen"):
        """What the next pages are seen with."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        prefers = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=prefers)

    def open(self, path):
        """Load a file, and wait until its scripts and formulas are done."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + 60
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(deadline))
        self.run("window.MathJax?.startup?.promise")

    def run(self, script):
        """The value of a JavaScript expression; of a promise what it becomes."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return self.call("Runtime.evaluate", **asked)["result"].get("value")

    def errors(self):
        """Errors of the console since the page was opened."""
        kinds = {
            "Runtime.exceptionThrown": lambda p: p["exceptionDetails"],
            "Log.entryAdded": lambda p: p["entry"] if p["entry"]["level"] == "error" else None,
            "Runtime.consoleAPICalled": lambda p: p["args"] if p["type"] == "error" else None,
        }
        told = (kinds[e["method"]](e["params"]) for e in self.events if e.get("method") in kinds)
        return [str(what) for what in told if what]

    def picture(self, path, whole=False):
        """Write a PNG of the window, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def pdf(self):
        """The bytes of the page in print, on A4."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        return base64.b64decode(self.call("Page.printToPDF", **paper)["data"])
