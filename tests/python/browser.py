"""A real Chromium without a window, driven through its driver's HTTP interface (W3C WebDriver)."""

import json
import re
import shutil
import subprocess
import urllib.request

from conftest import unavailable

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One browser, with a profile of its own in `folder`; use it in `with`."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        driver = shutil.which("chromedriver")
        if not driver or not shutil.which("chromium"):
            unavailable("chromium and chromedriver are not installed (tests/python/install_terminal_programs.sh does)")
        # The driver says which port it got.
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        while port is None:
            line = self.driver.stdout.readline()
            assert line, "chromedriver ended before it had a port"
            port = re.search(r"started successfully on port (\d+)", line)
        self.address = f"http://127.0.0.1:{port.group(1)}/session"
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={self.folder}"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self.address += "/" + self._ask("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.address.count("/") > 3:
            self._ask("", method="DELETE")
        self.driver.terminate()
        self.driver.wait(20)
        self.driver.stdout.close()

    def _ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        self._ask("/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """The value of a script's `return`."""
        return self._ask("/execute/sync", {"script": script, "args": list(arguments)})

    def resize(self, width, height):
        """The window in CSS pixels, also narrower than windows can be."""
        self._ask("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def prefer(self, scheme):
        self._ask("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def find(self, selector):
        return self._ask("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def type(self, selector, keys):
        self._ask(f"/element/{self.find(selector)}/value", {"text": keys})

    def click(self, selector, x=0, y=0):
        """Clicks so many pixels from the middle of an element."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        origin = {ELEMENT: self.find(selector)}
        moves = [{"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._ask("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def complaints(self):
        """What the console has of errors and warnings, refused requests included, since it was last asked."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]
