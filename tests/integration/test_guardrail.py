"""More collections than may be captured: refused at the start, or said; said once where they appear later."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from snapshotter.cli.common import read_status
from snapshotter.engine import engine as engines
from snapshotter.engine.catalogue_watch import CatalogueWatch
from snapshotter.state.storages import storage_for
from tests.integration.test_preflight import run
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does


@pytest.fixture
def shop(lab: Lab) -> Lab:
    """Three collections, and one of signals, which does not count."""
    for name in ("orders", "people", "items", "signals"):
        lab.collection(name).insert_one({"_id": 1})
    return lab


def test_a_start_above_the_limit(tmp_path: Path, shop: Lab) -> None:
    """``guardrail.collections.max`` with ``guardrail.collections.limit.action=fail``: exit 2 before anything is
    touched, with the count and the names. At the limit, it goes on; 0 is no limit."""
    named = {"database__include__list": shop.database, "signal__data__collection": shop.name("signals")}
    code, said = run(
        tmp_path,
        shop.uri,
        **named,
        guardrail__collections__max=2,
        guardrail__collections__limit__action="fail",
    )
    assert code == 2
    listed = ", ".join(shop.name(name) for name in ("items", "orders", "people"))
    assert f"guardrail.collections.max = 2: 3 collections are captured: {listed}" in said
    assert "capture fewer (collection.include.list), or raise guardrail.collections.max" in said
    assert shop.client[shop.database].list_collection_names(filter={"name": {"$regex": "_status$"}}) == []
    shop.with_options(guardrail__collections__max=3, guardrail__collections__limit__action="fail")
    with shop.running() as engine:
        engine.wait("initial", SECONDS)
    shop.assert_equal("orders", "people", "items")


def test_a_warning_is_said_once(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``warn`` at the start; with ``fail`` where a collection appears later, which stops nothing: in the log once,
    and in the status as long as it is so."""
    monkeypatch.setattr(engines, "CatalogueWatch", partial(CatalogueWatch, every=0.2))
    shop.with_options(guardrail__collections__max=3, guardrail__collections__limit__action="fail")
    with capture_logs() as logs, shop.running() as engine:
        engine.wait("initial", SECONDS)
        watch = engine.engine._catalogue
        assert watch.warnings == ()
        shop.collection("later").insert_one({"_id": 1})
        (said,) = engine.until("the new one to be seen", lambda: watch.warnings, SECONDS)
        assert said.startswith("guardrail.collections.max = 3: 4 collections are captured: ")
        assert said.endswith("; the next start refuses (guardrail.collections.limit.action)")
        shop.collection("latest").insert_one({"_id": 1})
        engine.until("that one, too", lambda: "5 collections" in watch.warnings[0], SECONDS)
        engine.catch_up(SECONDS)
    assert len([line for line in logs if line["event"].startswith("guardrail.")]) == 1
    shop.assert_equal("later", "latest")
    shop.with_options(guardrail__collections__max=2, guardrail__collections__limit__action="warn")
    with shop.running() as engine:
        engine.catch_up(SECONDS)
        status = read_status(storage_for(engine.settings.state_location()))
        assert status is not None
        (said,) = status.warnings
        assert said.startswith("guardrail.collections.max = 2: 5 collections are captured: ")
