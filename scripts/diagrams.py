"""The diagrams of the pages as pictures: GitHub and editors draw Mermaid by themselves, the site has these.

Each is drawn once, in a real browser by Mermaid's own script from the npm registry, and kept in `docs/images/diagrams`
under the digest of its text. So the site needs neither, and a diagram whose text has changed has no picture: the site
does not build then, and a test says so. `make screens` draws what is missing, and removes what nobody has any more.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images" / "diagrams"
MERMAID = "mermaid@12.3.0"
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PAGES = ("*.md", "docs/**/*.md", "bench/*.md", "notebooks/*.md")
_DRAW = """
const [text, done] = arguments;
mermaid.initialize({
  startOnLoad: false, theme: "neutral", htmlLabels: false, deterministicIds: true,
  fontFamily: "Helvetica, Arial, sans-serif",
  flowchart: {useMaxWidth: false, htmlLabels: false}, sequence: {useMaxWidth: false}, state: {useMaxWidth: false},
});
mermaid.render("diagram", text).then(found => done(found.svg), error => done("error: " + error));
"""


def picture(text: str) -> str:
    """The name of the file that a diagram of this ``text`` is kept in."""
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg"


def shown(page: str) -> str:
    """A ``page`` with each of its diagrams as a picture, by its path in this repository. Raises FileNotFoundError for
    one that was not drawn."""

    def link(found: re.Match[str]) -> str:
        name = picture(found[1])
        if not (FOLDER / name).is_file():
            raise FileNotFoundError(f"no picture of this diagram: make screens\n{found[1]}")
        return f"![{found[1].split()[0]}](/docs/images/diagrams/{name})"

    return _BLOCK.sub(link, page)


def diagrams() -> Mapping[str, str]:
    """Every diagram of the pages: its text by the name of its file."""
    pages = {path for pattern in _PAGES for path in ROOT.glob(pattern)}
    texts = [text for path in sorted(pages) for text in _BLOCK.findall(path.read_text(encoding="utf-8"))]
    return {picture(text): text for text in texts}


def main() -> None:
    """Draw what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = diagrams()
    for path in FOLDER.glob("*.svg"):
        if path.name not in wanted:
            path.unlink()
    missing = {name: text for name, text in wanted.items() if not (FOLDER / name).is_file()}
    for name, svg in _drawn(missing) if missing else ():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        sys.stdout.write(f"docs/images/diagrams/{name}: {len(svg) // 1_000} kB\n")


def _drawn(missing: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from tests.support.chromium import chromium

    folder = Path(tempfile.mkdtemp(prefix="snapshotter-diagrams-"))
    try:
        script = _script(folder)
        (folder / "page.html").write_text(f'<!doctype html><script src="{script.name}"></script>')
        with chromium() as browser:
            browser.driver.get((folder / "page.html").as_uri())
            for name, text in missing.items():
                svg = str(browser.driver.execute_async_script(_DRAW, text))
                if not svg.startswith("<svg"):
                    raise ValueError(f"{svg}\n{text}")
                yield name, svg.replace("<svg ", '<svg style="background: white" ', 1) + "\n"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _script(folder: Path) -> Path:
    """Mermaid's script, whole in one file."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", MERMAID],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as package:
        package.extractall(folder, filter="data")
    return shutil.copy(folder / "package" / "dist" / "mermaid.min.js", folder / "mermaid.js")


if __name__ == "__main__":
    main()
