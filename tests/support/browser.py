"""A real browser without a window, driven through a pipe: Chromium's DevTools protocol, JSON ended by a zero byte.

No port is opened and no library is needed. Tests that use it skip where no Chromium is installed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
    "--window-size=1280,1000",
)  # fmt: skip
SECONDS = 30.0


def chromium() -> str:
    """Path of a Chromium, or the test is skipped."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    return found


class Browser:
    """One page of a browser: what it logs and asks for is kept in `events`."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="lowtide-browser-")
        read_there, self._write = os.pipe()
        self._read, write_there = os.pipe()

        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read_there, write_there)]  # none of them is 3 or 4

        def pipes() -> None:
            for there, number in zip(high, (3, 4), strict=True):  # the protocol's own numbers
                os.dup2(there, number)

        command = [chromium(), *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False
        )
        for fd in (read_there, write_there, *high):
            os.close(fd)
        self._pending = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call the protocol, and wait for the answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)
        raise TimeoutError(method)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = os.read(self._read, 1 << 20)
            assert data, "the browser is gone"
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\0")
        return json.loads(line)

    def open(self, path: Path) -> None:
        """Load a file and wait until its script is through."""
        self.events.clear()
        self.run("document.documentElement.dataset.ready = 'before'")
        self.call("Page.navigate", url=path.as_uri())
        self.wait(lambda: self.run("document.documentElement?.dataset.ready ?? ''") in ("yes", "no"))

    def run(self, expression: str) -> Any:
        """Value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        until = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < until, "it does not come true"
            time.sleep(0.02)

    def key(self, key: str, *, shift: bool = False) -> None:
        """Press a key where the focus is."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **text)

    def mouse(self, kind: str, x: float, y: float, *, held: bool = False) -> None:
        """Move, press or release the mouse."""
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" or held else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=int(held), **button)

    def complaints(self) -> list[str]:
        """What the console shows of errors and warnings, and every request but for the file itself."""
        self.run("0")  # what came before is then here
        made = []
        for event in self.events:
            what = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    made.append(str(what["exceptionDetails"]))
                case "Log.entryAdded" | "Runtime.consoleAPICalled":
                    made.append(str(what))
                case "Network.requestWillBeSent":
                    url = what["request"]["url"]
                    made += [] if url.startswith(("file://", "data:", "blob:")) else [f"asks for {url}"]
                case _:
                    pass
        return made

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
