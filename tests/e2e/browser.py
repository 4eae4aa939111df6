"""A real Chromium without a screen; skipped where there is none, but for CI."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver

from tests.e2e.harness import PATIENCE_S
from tests.missing import skip_or_fail

CHROMIUM, DRIVER = "chromium", "chromedriver"
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-US",
)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in this folder."""
    paths = [shutil.which(name) for name in (CHROMIUM, DRIVER)]
    if None in paths:
        skip_or_fail("the news page's tests need: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(paths[0])
    for flag in (*QUIET, f"--user-data-dir={folder}", "--window-size=1100,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(paths[1])))
    try:
        driver.set_script_timeout(PATIENCE_S)
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """What tests ask of the browser: they wait for what a reader would see."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Go to an address."""
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """What the elements say that can be seen."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].filter(n => n.offsetParent).map(n => n.innerText)"
        )
        found: list[str] = self.run(script, selector)
        return found

    def click(self, selector: str, number: int = 0) -> None:
        """Click on the element of this number, once it is there."""
        self.run("window.scrollTo(0, 0)")
        script = (
            "const n = document.querySelectorAll(arguments[0])[arguments[1]]; if (n) n.click(); return Boolean(n)"
        )
        self.until(lambda: bool(self.run(script, selector, number)), f"{selector} is there")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until it is so; fail with what the page says."""
        from selenium.webdriver.support.ui import WebDriverWait

        def said(_: Any) -> bool:
            return condition()

        says = "document.body.innerText"
        try:
            WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.1).until(said)
        except Exception as error:
            raise AssertionError(f"it never came that {what}:\n{self.run(f'return {says}')[:3000]}") from error

    def sees(self, selector: str, *wanted: str) -> None:
        """Wait until elements say each of these, among others."""
        self.until(lambda: set(wanted) <= set(self.texts(selector)), f"{selector} says {wanted}")
