"""A real browser without a window, spoken to over a pair of pipes. Standard Python only.

The protocol is Chromium's own for developers: JSON messages that end with a NUL, requests on one pipe, answers and
events on the other (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 120


class Browser:
    """One browser with one page."""

    def __init__(self, wide: int = 1280, high: int = 800) -> None:
        """Starts it; it has a profile of its own."""
        assert CHROMIUM is not None
        self.events: list[dict[str, Any]] = []
        self.profile = tempfile.mkdtemp(prefix="ucp-browser-")
        their_in, self.to_browser = os.pipe()
        self.from_browser, their_out = os.pipe()
        # The browser reads requests from descriptor 3 and writes to 4.
        command = (
            f'exec "$0" --headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe '
            f'--user-data-dir="$1" --window-size={wide},{high} 3<&{their_in} 4>&{their_out}'
        )
        self.process = subprocess.Popen(
            ["sh", "-c", command, CHROMIUM, self.profile],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self.unread = b""
        self.number = 0
        self.session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def close(self) -> None:
        """Ends it and removes its profile."""
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline: float) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self.from_browser, 1 << 20) if ready else b""
            if not read:
                raise TimeoutError("the browser says nothing any more")
            self.unread += read
        message, self.unread = self.unread.split(b"\0", 1)
        value: dict[str, Any] = json.loads(message)
        return value

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a request and waits for its answer; events that come before are kept."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            message = self.receive(deadline)
            if message.get("id") == self.number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def go(self, address: str) -> None:
        """Waits until it has been read."""
        self.events.clear()
        self.ask("Page.navigate", url=address)
        deadline = time.monotonic() + SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive(deadline))

    def open(self, page: Path, fragment: str = "") -> None:
        """Opens a page anew; another fragment alone would not."""
        self.go("about:blank")
        self.go(page.as_uri() + fragment)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Exceptions, errors on the console, and what the page's policy forbade."""
        self.run("1")
        kinds = (
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )
        return [json.dumps(event) for event in self.events if event.get("method") in kinds]

    def click(self, selector: str) -> None:
        """Presses the mouse on the first element that the selector finds."""
        place = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Types where the focus is."""
        self.ask("Input.insertText", text=text)
