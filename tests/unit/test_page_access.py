"""Who may do what on the page: names of hosts, where a request comes from, and the token."""

from __future__ import annotations

import pytest

from snapshotter.configuration.page_config import PageConfig
from snapshotter.page.access import Access, Asked, name_of

TOKEN = "s3cret-of-sixteen"
HERE = Access.of(PageConfig(port=8_585), TOKEN)
EVERYWHERE = Access.of(PageConfig("0.0.0.0", 8_585, names=("Lake.example.org",)), TOKEN)
HOST, OWN, BEARER = ("localhost:8585",), ("http://localhost:8585",), (f"Bearer {TOKEN}",)


def code(access: Access, asked: Asked) -> int | None:
    """Of the refusal; None where it is answered. A refusal says what to do, and never the token."""
    refusal = access.refusal(asked)
    if refusal is None:
        return None
    assert refusal.next_step
    assert TOKEN not in f"{refusal.why}{refusal.next_step}"
    return refusal.code


@pytest.mark.parametrize(
    "host", ["localhost:8585", "127.0.0.1:8585", "[::1]:8585", "LOCALHOST", "127.0.0.1:9999"]
)
def test_a_browser_on_this_machine_may_look(host: str) -> None:
    """Under each of its names, whatever port leads here, and without a token."""
    assert code(HERE, Asked("GET", "/", (host,))) is None
    assert code(HERE, Asked("GET", "/api/page", (host,))) is None


@pytest.mark.parametrize(
    "hosts",
    [
        ("evil.example.org",),
        ("localhost.evil.example.org:8585",),
        ("evil.example.org@localhost",),
        ("localhost/evil",),
        ("",),
        (),
        ("localhost", "localhost"),
        ("[::1",),
        ("lake.example.org",),
    ],
)
def test_another_name_is_refused(hosts: tuple[str, ...]) -> None:
    """A page elsewhere can make its own name lead here; nothing is shown to it, nor done for it, token or not."""
    assert code(HERE, Asked("GET", "/", hosts)) == 421
    own = tuple(f"http://{host}" for host in hosts[:1])
    assert code(HERE, Asked("POST", "/api/signals", hosts, own, BEARER)) == 421


def test_names_that_were_given_are_ours() -> None:
    """And that of the address; what means every address is no name."""
    assert code(EVERYWHERE, Asked("GET", "/", ("lake.example.org:443",))) is None
    assert code(EVERYWHERE, Asked("GET", "/", ("0.0.0.0:8585",))) == 421
    named = Access.of(PageConfig("192.0.2.7", 8_585), TOKEN)
    assert code(named, Asked("GET", "/", ("192.0.2.7:8585",))) is None
    refusal = named.refusal(Asked("GET", "/", ("lake.example.org",)))
    assert refusal is not None
    assert "engine.http.names" in refusal.next_step


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    "origins",
    [
        (),
        ("null",),
        ("http://evil.example.org",),
        ("http://localhost:8586",),
        ("http://localhost",),
        ("ftp://localhost:8585",),
        ("http://localhost:8585", "http://localhost:8585"),
    ],
)
def test_another_page_does_not_act(method: str, origins: tuple[str, ...]) -> None:
    """Only the page itself does, even where another one knew the token."""
    assert code(HERE, Asked(method, "/api/signals", HOST, origins, BEARER)) == 403


@pytest.mark.parametrize(
    "authorizations",
    [
        (),
        ("Bearer",),
        ("Bearer wrong",),
        (f"Bearer {TOKEN}x",),
        (f"Bearer {TOKEN[:-1]}",),
        (f"Basic {TOKEN}",),
        (TOKEN,),
        BEARER * 2,
        ("Bearer \u00e9",),
    ],
)
def test_whatever_acts_needs_the_token(authorizations: tuple[str, ...]) -> None:
    """Also on this machine, and also from the page itself."""
    assert code(HERE, Asked("POST", "/api/signals", HOST, OWN, authorizations)) == 401


def test_the_page_itself_with_the_token_acts() -> None:
    """Also where something in front of it ends TLS."""
    assert code(HERE, Asked("POST", "/api/signals", HOST, OWN, BEARER)) is None
    assert code(HERE, Asked("POST", "/api/signals", HOST, ("https://LOCALHOST:8585",), BEARER)) is None


def test_where_others_reach_it_looking_needs_the_token_too() -> None:
    """The page's own files say nothing of the engine, and so they do not."""
    name = ("lake.example.org",)
    for path in ("/", "/page.js", "/page.css"):
        assert code(EVERYWHERE, Asked("GET", path, name)) is None
    for path in ("/api/page", "/api/status", "/api/events", "/api/recording", "/api/answers/x"):
        assert code(EVERYWHERE, Asked("GET", path, name)) == 401
        assert code(EVERYWHERE, Asked("GET", path, name, (), BEARER)) is None


def test_a_page_behind_a_proxy_of_this_machine_is_no_page_of_this_machine_alone() -> None:
    """What ends TLS comes from here, whoever sent it: with a name for others, looking needs the token."""
    access = Access.of(PageConfig(port=8_585, names=("lake.example.org",)), "secret")
    assert code(access, Asked("GET", "/api/page", ("lake.example.org",))) == 401
    assert code(access, Asked("GET", "/api/page", HOST)) == 401


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_probes_ask_for_nothing(path: str) -> None:
    """Scrapers and probes come by addresses; they may only read."""
    assert code(EVERYWHERE, Asked("GET", path, ("10.0.0.7:8585",))) is None
    assert code(EVERYWHERE, Asked("POST", path, ("10.0.0.7:8585",))) == 421


@pytest.mark.parametrize(
    ("host", "name"),
    [("a.b:80", "a.b"), ("[::1]:80", "::1"), ("A", "a"), ("a b", None), ("a#b", None), ("u@a", None)],
)
def test_the_name_in_a_host_header(host: str, name: str | None) -> None:
    """Without port and brackets; what a browser would never send has none."""
    assert name_of(host) == name
