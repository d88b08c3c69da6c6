"""A browser for the tests of the page: Debian's Chromium, driven by Selenium (scripts/setup page).

One browser for all tests of a run; it starts in a second or two. Whatever its console says at level
SEVERE fails the test that looks (`problems`).
"""

import os
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
OUT = os.path.join(ROOT, os.environ.get("BUILD", "build"), "page")
AXE = os.path.join(OUT, "node_modules", "axe-core", "axe.min.js")
FLAGS = [
    "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
]  # fmt: skip


class Browser:
    def __init__(self, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in FLAGS + [f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(20)

    def close(self):
        self.driver.quit()

    def device(self, width, height, scale=1.0, dark=False, mobile=False):
        cdp = self.driver.execute_cdp_cmd
        cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height,
            "deviceScaleFactor": scale, "mobile": mobile})
        cdp("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, node, path="/"):
        self.driver.get("about:blank")
        self.driver.get(f"http://127.0.0.1:{node.http_port}{path}")

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: (self.find(selector) or [None])[0], selector)

    def click(self, selector, number=0):
        """On the element of that number; one that the page makes anew is looked for again."""
        def clicked():
            found = self.find(selector)[number:]
            return found and (found[0].click() or True)

        self.until(clicked, f"a click on {selector}")

    def until(self, condition, what, timeout=20.0):
        """Wait for a condition; elements that went away meanwhile are looked for again."""
        end = time.monotonic() + timeout
        while True:
            try:
                value = condition()
            except Exception as error:  # pylint: disable=broad-except
                if "stale" not in str(error).lower():
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout} s: {what}; the page says:\n"
                                     f"{self.text()[:2000]}")
            time.sleep(0.05)

    def says(self, words, timeout=20.0):
        self.until(lambda: words in self.text(), repr(words), timeout)

    def shot(self, name, selector=None):
        """Write the whole page, or an element, as a PNG below build/page."""
        os.makedirs(OUT, exist_ok=True)
        path = os.path.join(OUT, f"{name}.png")
        if selector:
            self.one(selector).screenshot(path)
            return path
        data = self.driver.execute_cdp_cmd("Page.captureScreenshot",
                                           {"captureBeyondViewport": True, "format": "png"})
        import base64

        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))
        return path

    def problems(self):
        """What the console says at level SEVERE, but for connections that the test cut."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"]

    def axe(self):
        """What axe-core finds of impact serious or critical, in words."""
        with open(AXE, encoding="utf-8") as file:
            self.driver.execute_script(file.read())
        result = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run(document).then(done, (e) => done({error: String(e)}))")
        assert "error" not in result, result
        return [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:200]}"
                for v in result["violations"] if v["impact"] in ("serious", "critical")]
