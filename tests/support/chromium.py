"""A real Chromium for tests, without a window: where it comes from, and what a test asks of it.

1. `SNAPSHOTTER_TEST_CHROMIUM`: the folder of `chromium` and `chromedriver`;
2. both on PATH;
3. Debian's packages, with what they need, downloaded and unpacked into a folder that is kept (`tests.support.debian`).

Where there is none a test is skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.remote.webelement import WebElement

from snapshotter.testing import processes
from snapshotter.testing.processes import wait_until
from tests.support.debian import Unavailable, unpacked

FOLDER_VARIABLE = "SNAPSHOTTER_TEST_CHROMIUM"
PROGRAMS = ("chromium", "chromedriver")
PHONE, DESK = (390, 844), (1280, 900)
_SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-GB"),
)
_SECONDS = 90.0
UNREADABLE = (Path(__file__).parent / "unreadable.js").read_text()
"""Gives the texts of a page whose contrast is less than WCAG's level AA wants."""


_FONTS = """<?xml version="1.0"?><fontconfig>
<dir>/usr/share/fonts</dir><dir>{mine}</dir><cachedir>{cache}</cachedir>
<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<match target="pattern">
<edit name="family" mode="append_last" binding="strong"><string>DejaVu Sans</string></edit>
</match>
</fontconfig>"""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the two lie, and the environment that they need beside the process's."""

    chromium: Path
    chromedriver: Path
    environment: dict[str, str] = field(default_factory=dict)


def programs() -> Programs:
    """Both. Skips the test that asks where they can't be had."""
    try:
        return _programs()
    except Unavailable as error:
        pytest.skip(f"no Chromium: {error}; {FOLDER_VARIABLE} may name the folder of one")


def _programs() -> Programs:
    if given := os.environ.get(FOLDER_VARIABLE):
        return Programs(*(Path(given) / program for program in PROGRAMS))
    found = [shutil.which(program) for program in PROGRAMS]
    if found[0] and found[1]:
        return Programs(Path(found[0]), Path(found[1]))
    root = unpacked("chromium", "chromium", "chromium-driver", needs=True)
    both = root / "usr" / "lib" / "chromium" / "chromium", root / "usr" / "bin" / "chromedriver"
    if not all(path.is_file() for path in both):
        raise Unavailable(f"Debian's packages, as unpacked in {root}, do not have it")
    return Programs(*both, _environment(root))


def _environment(root: Path) -> dict[str, str]:
    """Libraries and fonts that were unpacked, and not installed."""
    libraries = sorted({str(path.parent) for path in root.glob("**/lib*.so*")})
    fonts = root / "fonts.conf"
    fonts.write_text(_FONTS.format(mine=root / "usr" / "share" / "fonts", cache=root / "fonts-cache"))
    before = os.environ.get("LD_LIBRARY_PATH")
    path = ":".join([*libraries, *([before] if before else [])])
    return {"LD_LIBRARY_PATH": path, "FONTCONFIG_FILE": str(fonts)}


@dataclass(slots=True)
class Browser:
    """One window. What a test waits for it waits for here: a page draws in its own time."""

    driver: Chrome

    def open(self, address: str, size: tuple[int, int] = DESK, *, dark: bool = False) -> None:
        """This address in a window of this ``size``, in ``dark`` or light, with nothing of a page before it."""
        self.driver.get("about:blank")
        self.look(size, dark=dark)
        self.driver.get_log("browser")
        self.driver.get(address)

    def look(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Another ``size`` of the window, in ``dark`` or light."""
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def find(self, selector: str) -> WebElement:
        """The only element, or the first."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        """As a person sees it; nothing where there is none."""
        found = self.all(selector)
        return found[0].text if found else ""

    def wait(self, what: str, ready: Callable[[], Any]) -> Any:
        """Until ``ready`` gives something true; ``what`` names it. What is drawn anew is looked for again."""

        def look() -> Any:
            try:
                return ready()
            except StaleElementReferenceException:
                return None

        return wait_until(look, what, seconds=_SECONDS)

    def says(self, selector: str, text: str) -> None:
        """Wait until the element shows this text."""
        self.wait(f"{selector} to say {text!r}", lambda: text in self.text(selector))

    def click(self, selector: str) -> None:
        """Once it is there, and can be clicked."""

        def there() -> WebElement | None:
            found = (e for e in self.all(selector) if e.is_displayed() and e.is_enabled())
            return next(found, None)

        self.wait(f"{selector} to be there", there).click()

    def run(self, script: str, *arguments: Any) -> Any:
        """What this JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def focused(self) -> str:
        """What the keyboard is at: its id, or what it says."""
        here = self.driver.switch_to.active_element
        return here.get_attribute("id") or here.text or here.tag_name

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since the page was opened."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]


@contextmanager
def chromium(switches: Sequence[str] = _SWITCHES) -> Iterator[Browser]:
    """A Chromium with a profile of its own, until the end of the block; ``switches`` are its command line's."""
    found, folder = programs(), processes.temporary_folder("chromium")
    options = ChromeOptions()
    options.binary_location = str(found.chromium)
    for switch in (*switches, f"--user-data-dir={folder}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = ChromeService(str(found.chromedriver), env={**os.environ, **found.environment})
    driver = Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(_SECONDS)
        yield Browser(driver)
    finally:
        driver.quit()
        processes.remove_folder(folder)
