"""The documents as a site (``make docs``): it builds strictly, from these pages, and needs nobody else's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"'](?:https?:)?//[^\"']+")
_STYLES_ELSEWHERE = re.compile(r"@import|url\([\"']?(?:https?:)?//")


def build(source: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """As ``make docs`` does, of the pages in ``source``."""
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-c", str(ROOT / "docs")]
    command = [*sphinx, str(source), str(output)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("site")
    built = build(ROOT, output)
    assert built.returncode == 0, built.stderr
    return output


def test_every_page_is_there_and_found(site: Path) -> None:
    """No link and no anchor leads nowhere, or it would not be built; each page has its place in the navigation."""
    root = (site / "docs" / "README.html").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert (site / "docs" / f"{page.stem}.html").exists()
        assert f'href="{page.stem}.html"' in root or page.stem == "README"
    assert 'href="../notebooks/README.html"' in root
    assert (site / "notebooks" / "1_first_backfill.html").exists()
    assert "docs/README.html" in (site / "index.html").read_text()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are its own."""
    for page in site.rglob("*.html"):
        assert _ELSEWHERE.findall(page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert _STYLES_ELSEWHERE.findall(style.read_text()) == [], style


def test_diagrams_are_pictures(site: Path) -> None:
    """None is shown as the text that it is drawn from."""
    page = (site / "docs" / "PROTOCOL.html").read_text()
    assert "stateDiagram-v2\n" not in page
    assert page.count('alt="stateDiagram-v2"') == 2


def test_messages_are_shown_as_they_are_written(site: Path) -> None:
    """Whoever looks for one finds it: no quote and no hyphen has become another character."""
    page = (site / "docs" / "troubleshooting.html").read_text()
    assert "or overwrite it with --force" in page
    assert "another engine&#39;s" in page or "another engine's" in page


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[there](other.md#nowhere)", "nowhere"),
        ("[there](another.md)", "another.md"),
        ("no word of the other page", "isn't included in any toctree"),
    ],
)
def test_what_leads_nowhere_fails(tmp_path: Path, text: str, why: str) -> None:
    """An anchor and a page that there is not, and a page that no other one leads to."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# Pages\n\n## All\n\n[one](one.md): {text}\n")
    (tmp_path / "docs" / "one.md").write_text("# One\n\nThere is one.\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\nThere is another.\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert why in built.stderr
