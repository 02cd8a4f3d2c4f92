"""A real headless browser for tests: Chromium, driven through a pipe by its DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
#: Seconds for an answer.
PATIENCE_S = 180.0


def browser_path() -> str:
    """Return the path of a Chromium; empty: there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), "")


def probe() -> str:
    """Return why there is no browser here; empty: there is one."""
    path = browser_path()
    if not path:
        return "no chromium or google-chrome in PATH"
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return "" if said.returncode == 0 else f"{path} --version: {said.stderr.strip()[-200:]}"


class Browser:
    """One tab; every event that it sends is kept."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._pending, self._last = commands, answers, b"", 0
        self.events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", {"url": "about:blank"}, "")["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, "")
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command about the tab and return its result."""
        return self._ask(method, parameters, self._session)

    def _ask(self, method: str, parameters: dict[str, Any], session: str) -> dict[str, Any]:
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters}
        data = json.dumps(command | ({"sessionId": session} if session else {})).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._pending:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError("The browser does not answer.")
            if not (read := os.read(self._answers, 1 << 20)):
                raise AssertionError("The browser has ended.")
            self._pending += read
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; of a promise what it becomes."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def show(self, page: Path, *, width: int, scheme: str) -> None:
        """Load a page in a window of some width, light or dark."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=media)
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        self.run("new Promise(d => document.readyState === 'complete' ? d() : addEventListener('load', d))")

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9)

    def named(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of a kind since the page was loaded."""
        return [event["params"] for event in self.events if event.get("method") == method]


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Give a browser whose profile is in a folder; it has ended afterwards."""
    (from_us, to_browser), (from_browser, to_us) = os.pipe(), os.pipe()
    flags = [*FLAGS, f"--user-data-dir={folder}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    # The protocol has the descriptors 3 and 4; those of the pipes are larger, for pytest holds several.
    shell = [
        "sh",
        "-c",
        f'exec "$@" 3</proc/self/fd/{from_us} 4>/proc/self/fd/{to_us} 2>/dev/null',
        "sh",
        browser_path(),
        *flags,
    ]
    with subprocess.Popen(shell, pass_fds=(from_us, to_us), start_new_session=True) as process:
        os.close(from_us)
        os.close(to_us)
        try:
            browser = Browser(to_browser, from_browser)
            yield browser
            browser._ask("Browser.close", {}, "")
            process.wait(PATIENCE_S)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            if process.poll() is None:
                os.killpg(process.pid, 9)
