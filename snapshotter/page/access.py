"""Who may do what on the page: a browser that came under a name of ours, and, to act, from the page itself with the
token.

A page in another tab can send requests to this machine, and make its own name lead here; what it can't do is read the
token, change what its browser says of where a request comes from (`Origin`), or under which name it was sent (`Host`).
So the name has to be one of ours, whatever acts has to come from the page itself, and nothing that acts is a GET. There
is no cookie, so a browser proves nothing by itself.

Pure, but for the comparison of tokens, which takes as long whatever they are.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from snapshotter.configuration.page_config import LOOPBACK, NAMES, PageConfig

READS = frozenset({"GET", "HEAD"})
OPEN = frozenset({"/metrics", "/healthz", "/readyz"})
"""For scrapers and probes, which come by whatever address: as at the metrics' port."""
_PRIVATE = "/api/"
_WILDCARDS = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says of itself: each header's values, as they came."""

    method: str
    path: str
    host: Sequence[str] = ()
    origin: Sequence[str] = ()
    authorization: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer's status ``code``, what is wrong, and what to do."""

    code: int
    why: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Access:
    """``names`` of hosts are ours. ``reads_freely``: looking asks for no token, for nobody else reaches the port. (A
    page that was given names is reached from elsewhere, through something that stands before it.)"""

    token: str
    names: frozenset[str]
    reads_freely: bool

    @classmethod
    def of(cls, config: PageConfig, token: str) -> Access:
        """That of a page with this ``config``."""
        own = () if config.host in _WILDCARDS else (config.host,)
        return cls(token, _lower((*LOOPBACK, *own, *config.names)), config.local and not config.names)

    def refusal(self, asked: Asked) -> Refusal | None:
        """Why this is not answered; None where it is."""
        if asked.path in OPEN and asked.method in READS:
            return None
        if (refusal := self._of_the_host(asked)) is not None:
            return refusal
        acts = asked.method not in READS
        if acts and not self._is_own(asked):
            return Refusal(
                403,
                "this came from another page than the engine's own (Origin)",
                "act on the engine's page itself; a program sends Origin: http:// and what its Host header says",
            )
        private = acts or (asked.path.startswith(_PRIVATE) and not self.reads_freely)
        if private and not self._knows(asked.authorization):
            return Refusal(
                401,
                "this needs the engine's token",
                "it is in the address that the engine printed when it started, and in the file http-token beside its "
                "state, unless engine.http.token sets it",
            )
        return None

    def _of_the_host(self, asked: Asked) -> Refusal | None:
        name = name_of(asked.host[0]) if len(asked.host) == 1 else None
        if name in self.names:
            return None
        said = "without a name of a host" if name is None else f"under the name {name[:100]!r}"
        return Refusal(
            421,
            f"the engine's page was asked for {said}, which is none of its own (Host)",
            f"open it by one of {', '.join(sorted(self.names))}, or add the name to {NAMES}",
        )

    def _is_own(self, asked: Asked) -> bool:
        """Whether the page that sends it was served under the name that it is sent to. TLS may end before us."""
        if len(asked.origin) != 1:
            return False
        return asked.origin[0].lower() in {
            f"{scheme}://{asked.host[0].lower()}" for scheme in ("http", "https")
        }

    def _knows(self, authorization: Sequence[str]) -> bool:
        if len(authorization) != 1:
            return False
        scheme, _, given = authorization[0].partition(" ")
        return hmac.compare_digest(given.strip().encode(), self.token.encode()) and scheme.lower() == "bearer"


def name_of(host: str) -> str | None:
    """The name in a Host header, without its port and brackets; None where it holds none."""
    try:
        return urlsplit(f"//{host}").hostname if host and not set(host) & set("/@?#\\ ") else None
    except ValueError:
        return None


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip("[]").lower() for name in names)
