"""The page with a recording in it, as one file that needs no engine and no network: to look at a run again later.

Its policy allows exactly the style and the script that are in it, by their digests, and no connection. What was
recorded is text to the browser: nothing in it can end the element that it stands in.
"""

from __future__ import annotations

import base64
import hashlib

from snapshotter.page.site import static

_STYLE = '<link rel="stylesheet" href="page.css">'
_SCRIPT = '<script src="page.js"></script>'
_CHARSET = '<meta charset="utf-8">'


def standalone(recording: bytes) -> str:
    """The HTML of the page that replays a ``recording``, as `History.recording` makes them."""
    style, script = static("page.css").decode(), static("page.js").decode()
    data = recording.decode().replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = static("index.html").decode()
    for place, content in (
        (_CHARSET, f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (_STYLE, f"<style>{style}</style>"),
        (
            _SCRIPT,
            f'<script type="application/json" id="recording">{data}</script>\n<script>{script}</script>',
        ),
    ):
        head, found, tail = page.partition(place)
        if not found:
            raise ValueError(f"index.html does not have {place}")
        page = f"{head}{content}{tail}"
    return page


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
