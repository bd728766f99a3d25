"""``snapshotter verify``: collections compared with their tables.

While somebody writes, the two are never read at one moment, so keys that differ are looked at again, a few seconds
apart, and not before a running engine has landed what was committed by then: it may be putting its next landing off. A
key that changes every few seconds may still be named; while nobody writes, none is.

Small tables are compared in this process, where the extra ``verify`` is installed; Spark is started for the first one
that takes it. Which of the two has read a table is in the report, and why it was Spark.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, read_status, set_up_logging
from snapshotter.cli.completion import collection_names
from snapshotter.errors import EXIT_DIFFERENT, EXIT_OK, ConfigurationError
from snapshotter.reporting.health import Check, check
from snapshotter.reporting.status import Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snapshotter.configuration.settings import Settings
    from snapshotter.verification.comparison import VerifyResult
    from streaming.fields.rules import CollectionRules
    from streaming.namespaces import Namespace
    from streaming.positions import ClusterTime

_log = structlog.get_logger(__name__)
_ROUND_SECONDS = 3.0
_LANDS_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def verify(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str] | None,
        typer.Argument(
            help="database.collection; none is all captured ones.", autocompletion=collection_names
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare tables with their collections, document by document. Exit 0: equal, 1: different."""
    set_up_logging(ctx)
    settings = load_settings(config)
    chosen = chosen_collections(settings, collections or [])
    from streaming.fields.rules import FieldRules

    rules = FieldRules.parse(settings.source_options())
    reports: list[dict[str, object]] = []
    session = _Session(settings)
    try:
        for namespace in chosen:
            result, why_spark = _compared(settings, session, namespace, rules.of(namespace))
            report: dict[str, object] = {
                "collection": str(namespace),
                "equal": result.equal,
                "documents": result.documents,
                "filtered": settings.events.filters,
                "read_by": "duckdb" if why_spark is None else "spark",
                "why_spark": why_spark,
            }
            reports.append({**report, "report": str(result)})
            if not as_json:
                typer.echo(f"{namespace}: {'equal' if result.equal else 'DIFFERENT'}\n{result}")
    finally:
        session.stop()
    if settings.events.filtered_text:
        typer.echo(settings.events.filtered_text, err=True)
    if as_json:
        typer.echo(json.dumps(reports, indent=2, ensure_ascii=False))
    raise typer.Exit(EXIT_OK if all(report["equal"] for report in reports) else EXIT_DIFFERENT)


@dataclass(slots=True)
class _Session:
    """Of Spark, started when it is first asked for."""

    settings: Settings
    _spark: SparkSession | None = None
    _told: set[str] = field(default_factory=set)

    def tell(self, namespace: Namespace, why: str) -> None:
        """Log why it is needed: once for each reason."""
        if why not in self._told:
            _log.info("Spark reads a table", collection=str(namespace), why=why)
        self._told.add(why)

    def get(self) -> SparkSession:
        if self._spark is None:
            from snapshotter.engine.assembly import spark_session
            from snapshotter.worker_code import check_workers

            self._spark = spark_session(self.settings)
            check_workers(self._spark)
        return self._spark

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def _compared(
    settings: Settings, session: _Session, namespace: Namespace, fields: CollectionRules | None
) -> tuple[VerifyResult, str | None]:
    """What was found, and why it took Spark; None where it did not."""
    from snapshotter.configuration.engine_config import layout_of
    from snapshotter.verification.small_table import NeedsSpark
    from snapshotter.verification.verify import verify_collection
    from streaming.delta.table_paths import state_path, under

    shape = settings.unwrap.shape
    table = under(settings.warehouse(), state_path(namespace))
    compare = partial(
        verify_collection,
        uri=settings.connection_uri(),
        namespace=namespace,
        table_path=table,
        layout=layout_of(shape),
        fields=fields,
        shape=shape,
        before_round=partial(_let_changes_land, settings, session),
    )
    try:
        return compare(None), None
    except NeedsSpark as why:
        why_spark = str(why)
    session.tell(namespace, why_spark)
    return compare(session.get()), why_spark


def _let_changes_land(settings: Settings, session: _Session) -> None:
    from snapshotter.core.rules.commit_interval import LONGEST_SECONDS
    from snapshotter.state.storages import needs_spark, storage_for
    from streaming.mongo.deployment import connect, majority_time

    location = settings.state_location()
    state = storage_for(location, session.get() if needs_spark(location) else None)
    head = majority_time(connect(settings.connection_uri()))
    time.sleep(_ROUND_SECONDS)
    longest = max(LONGEST_SECONDS, (settings.engine.commit_interval_ms or 0) / 1_000) + _LANDS_SECONDS
    deadline = time.monotonic() + longest
    while time.monotonic() < deadline and lands_later(read_status(state), head, datetime.now(UTC)):
        time.sleep(_LOOK_SECONDS)


def lands_later(status: Status | None, head: ClusterTime, now: datetime) -> bool:
    """Whether an engine that runs well, by what it says at the moment ``now``, has still to land what was committed up
    to ``head``."""
    if status is None or status.position is None or check(status, now) is not Check.ACTIVE:
        return False
    return (status.position.t, status.position.i) < (head.t, head.i)


def chosen_collections(settings: Settings, patterns: list[str]) -> list[Namespace]:
    """The captured collections that the patterns name, or all of them. Raises ConfigurationError for a
    pattern that names none, and DefiniteError for a user who may not see all of them: nothing compared must never look
    like everything equal.
    """
    from signals.matching.selection import expand, unmatched
    from snapshotter.engine.privileges import check_privileges, needed_to_read
    from snapshotter.reading.catalogue import captured_collections, near
    from streaming.mongo.deployment import check_deployment, connect
    from streaming.namespaces import Namespace
    from streaming.scope.scope import CaptureScope

    client = connect(settings.connection_uri())
    check_deployment(client)
    scope = CaptureScope.parse(settings.source_options())
    check_privileges(client, needed_to_read(scope, stream=False))
    captured = [
        n for n in captured_collections(client, scope.captures) if str(n) != settings.signal_collection
    ]
    names = [str(namespace) for namespace in captured]
    known = ", ".join(names) or "none"
    if unknown := unmatched(patterns, names):
        problems = "; ".join(f"{text} is no captured collection{near(text, names)}" for text in unknown)
        raise ConfigurationError(f"{problems}. Captured are: {known}")
    if not names:
        raise ConfigurationError("no collection is captured, so there is nothing to compare")
    return [Namespace.parse(name) for name in (expand(patterns, names) if patterns else names)]
