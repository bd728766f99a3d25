"""Options of the page: where it is, by which names, and with which token."""

from __future__ import annotations

import pytest

from snapshotter.configuration.page_config import PageConfig, is_loopback
from snapshotter.engine.assembly import engine_config
from tests.unit.test_settings import made, problems

TOKEN = "sixteen-characters-or-more"


def test_without_a_port_there_is_no_page() -> None:
    """And so no other option of it has an effect, which is said."""
    assert engine_config(made()).page.port is None
    said = made(engine_http_host="0.0.0.0", engine_http_token=TOKEN, engine_http_names="a").warnings
    assert [warning.partition(" ")[0] for warning in said] == [
        "engine.http.host",
        "engine.http.token",
        "engine.http.names",
    ]
    assert TOKEN not in str(said)


def test_the_address_and_the_token_reach_the_engine() -> None:
    """By default engine.http.port is opened for this machine alone, and engine.http.token is made up."""
    assert engine_config(made(engine_http_port="8585")).page == PageConfig("127.0.0.1", 8_585)
    options = {"engine_http_port": "8585", "engine_http_host": "0.0.0.0", "engine_http_token": TOKEN}
    found = engine_config(made(**options, engine_http_names="lake.example.org, lake")).page
    assert found == PageConfig("0.0.0.0", 8_585, TOKEN, ("lake.example.org", "lake"))


def test_the_token_is_shown_nowhere() -> None:
    """Not among the settings in force, nor in what the engine is given."""
    settings = made(engine_http_port="8585", engine_http_token=TOKEN)
    assert TOKEN not in str(settings.masked())
    assert TOKEN not in repr(engine_config(settings))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("engine.http.port", "0"),
        ("engine.http.port", "http"),
        ("engine.http.token", "too-short"),
        ("engine.http.token", "a token with some blanks"),
        ("engine.http.token", "ein-Schlüssel-mit-Umlaut"),
        ("engine.http.names", "lake.example.org:8585"),
        ("engine.http.names", "*.example.org"),
        ("engine.http.names", "http://lake"),
    ],
)
def test_what_cannot_be_is_refused(option: str, value: str) -> None:
    """By name; a token is not shown."""
    found = problems({"engine.http.port": "8585", option: value})
    assert set(found) == {option}
    assert option != "engine.http.token" or value not in found[option]


def test_one_port_for_both_is_at_one_address() -> None:
    """The page's port may be that of the metrics; then so is its host."""
    both = {"engine.http.port": "9404", "metrics.port": "9404", "metrics.host": "0.0.0.0"}
    assert "metrics.host (0.0.0.0)" in problems(both)["engine.http.host"]
    config = engine_config(made(engine_http_port="9404", metrics_port="9404"))
    assert config.page.port == config.metrics.port


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example.org", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, own: bool) -> None:
    """What others may reach asks for the token to look, too."""
    assert is_loopback(host) is own
    assert PageConfig(host).local is own
