"""The documents as a site: how Sphinx builds the Markdown pages of this repository (``make docs``).

The pages stay what they are on their own: plain Markdown, whose links lead to files beside them. So the root is the
repository, no page has anything in it that is for Sphinx alone, and the navigation is made of the links that the
index pages have: what none of them links to fails the build, as a link or an anchor does that leads nowhere. Nothing
is fetched, neither by the build nor by the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts.diagrams import shown

project = "snapshotter"
extensions = ["myst_nb"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "bench/README.md", "notebooks/README.md", "notebooks/*.ipynb"]
myst_heading_anchors = 4
smartquotes = False  # messages and flags are shown as they are written
nb_execution_mode = "off"  # their outputs are stored with them
html_theme = "furo"
html_title = project
html_extra_path = ["site"]  # an index.html that leads to the root
html_copy_source = False
html_show_copyright = False

_BELOW = ("docs/decisions/README", "notebooks/README")
"""The index pages of folders: what lies in there has its place under them."""
_LINK = re.compile(r"\]\(([^)#:\s]+)\.(?:md|ipynb)\)")


def sections(page: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """Each section of an index page: its title, and the pages that it links to and none before it."""
    folder, seen = dirname(page), {page}
    starts = [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)]
    for start, end in pairwise([0, *starts, len(text)]):
        title, _, body = text[start:end].partition("\n")
        pages = []
        for link in _LINK.findall(body):
            linked = normpath(join(folder, link))
            if linked not in seen and (page == root_doc or dirname(linked) == folder):
                seen.add(linked)
                pages.append(linked)
        yield title.lstrip("# "), pages


def _with_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    if page not in (root_doc, *_BELOW):
        return
    for title, pages in sections(page, source[0]):
        if pages:
            lines = "\n".join(f"/{name}" for name in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```\n"


def _with_pictures(_app: Sphinx, page: str, source: list[str]) -> None:
    try:
        source[0] = shown(source[0])
    except FileNotFoundError as error:
        raise ExtensionError(f"{page}: {error}") from error


def setup(app: Sphinx) -> None:
    """What Sphinx calls. Diagrams are pictures here, for drawing them takes a script from elsewhere."""
    app.connect("source-read", _with_navigation)
    app.connect("source-read", _with_pictures)
