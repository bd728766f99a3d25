"""`make screens`: the pictures in `docs/images`. Those of the page are taken by a real browser from the scenes of its
tests; the terminal's (`scripts.terminal_screens`) are drawn without one, and diagrams (`scripts.diagrams`) where their
text has changed.

They are taken anew where the page looks different; the moments in them are those of the taking.
"""

from __future__ import annotations

import io
import sys
from datetime import timedelta
from pathlib import Path

from PIL import Image

from scripts import diagrams, terminal_screens
from snapshotter.reporting.answers import CollectionEstimate, DryRun, write_answer
from tests.support.chromium import DESK, PHONE, Browser, chromium
from tests.support.pages import ORDERS, TOKEN, Stage, backfill, moment, staged, trouble

FOLDER = Path(__file__).parents[1] / "docs" / "images"
_COLOURS = 200


def main() -> None:
    """Take them all."""
    terminal_screens.main()
    diagrams.main()
    FOLDER.mkdir(parents=True, exist_ok=True)
    stage = Stage(lives=True)
    lived(stage)
    with chromium() as browser, staged(stage):
        browser.open(f"{stage.address}#token={TOKEN}", DESK)
        browser.says("#name", "shop")
        take(browser, "page", DESK)
        dialog(browser, stage)
        browser.look(DESK, dark=True)
        take(browser, "page-dark", DESK)
        browser.look(PHONE)
        browser.says("#windows-said", "in 60 s")
        take(browser, "page-phone", PHONE)
        trouble(stage, moment())
        assert stage.status is not None
        plain = {"id": "nightly", "error": f"{ORDERS}: its chunk was read 5 times in vain"}
        failed = stage.status.requests[0].model_copy(update=plain)
        stage.status = stage.status.model_copy(update={"requests": (failed,)})
        browser.look((1280, 820))
        browser.says("#headline", "tries again")
        take(browser, "page-trouble", (1280, 820))


def lived(stage: Stage) -> None:
    """Two minutes of a backfill, so that there are curves."""
    now = moment()
    for second in range(120):
        backfill(stage, now - timedelta(seconds=120 - second))
        assert stage.status is not None
        busy = 420 + 160 * ((second * 7919) % 13) / 13
        lag = 1.0 + ((second * 31) % 17) / 12 if second > 70 else 0.8
        changed = {
            "events_per_second": busy,
            "lag_seconds": round(lag, 1),
            "events_total": 31_000 + 512 * second,
        }
        stage.site.history.note(stage.status.model_copy(update=changed))
    backfill(stage, now)


def dialog(browser: Browser, stage: Stage) -> None:
    """A new snapshot, tried and not started."""
    browser.click("#do-snapshot")
    browser.click(f'#known input[value="{ORDERS}"]')
    browser.click("#dry")
    signals = browser.wait("the dry run", stage.received)
    amounts = {"documents": 2_000_000, "bytes": 612_000_000, "seconds": 64.0}
    part = CollectionEstimate(name=ORDERS, **amounts)
    answer = DryRun(
        id=signals[0].id, answered_at=moment(), collections=(part,), rows_per_second=31_250, **amounts
    )
    write_answer(stage.storage, answer)
    browser.says("#estimate", "2,000,000 documents")
    browser.look((1280, 620))
    take(browser, "page-snapshot", (1280, 620), whole=False)
    browser.click("#snapshot [data-close]")


def take(browser: Browser, name: str, size: tuple[int, int], *, whole: bool = True) -> None:
    """The ``whole`` page at the width of this ``size``, or what fits it, under this ``name``; in few colours, for a
    picture of text is small then."""
    height = browser.run("return document.documentElement.scrollHeight") if whole else size[1]
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": size[0] < 600},
    )
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    file = FOLDER / f"{name}.png"
    picture.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
    sys.stdout.write(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size // 1_000} kB\n")


if __name__ == "__main__":
    main()
