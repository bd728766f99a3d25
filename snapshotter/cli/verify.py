"""``snapshotter verify``: collections compared with their tables.

While somebody writes, the two are never read at one moment, so keys that differ are looked at again, a few seconds
apart: changes on the way have landed by then. A key that changes every few seconds may still be named; while nobody
writes, none is.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, set_up_logging
from snapshotter.cli.completion import collection_names
from snapshotter.errors import EXIT_DIFFERENT, EXIT_OK, ConfigurationError

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from streaming.namespaces import Namespace

_ROUND_SECONDS = 3.0


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
    from snapshotter.configuration.engine_config import layout_of
    from snapshotter.engine.assembly import spark_session
    from snapshotter.verification.verify import verify_collection
    from snapshotter.worker_code import check_workers
    from streaming.delta.table_paths import state_path, under
    from streaming.fields.rules import FieldRules

    uri, spark = settings.connection_uri(), spark_session(settings)
    rules, shape = FieldRules.parse(settings.source_options()), settings.unwrap.shape
    reports: list[dict[str, object]] = []
    try:
        check_workers(spark)
        for namespace in chosen:
            table = under(settings.warehouse(), state_path(namespace))
            sides = spark, uri, namespace, table, layout_of(shape)
            mine = rules.of(namespace)
            result = verify_collection(*sides, fields=mine, shape=shape, before_round=_let_changes_land)
            report: dict[str, object] = {
                "collection": str(namespace),
                "equal": result.equal,
                "documents": result.documents,
                "filtered": settings.events.filters,
            }
            reports.append({**report, "report": str(result)})
            if not as_json:
                typer.echo(f"{namespace}: {'equal' if result.equal else 'DIFFERENT'}\n{result}")
    finally:
        spark.stop()
    if settings.events.filtered_text:
        typer.echo(settings.events.filtered_text, err=True)
    if as_json:
        typer.echo(json.dumps(reports, indent=2, ensure_ascii=False))
    raise typer.Exit(EXIT_OK if all(report["equal"] for report in reports) else EXIT_DIFFERENT)


def _let_changes_land() -> None:
    time.sleep(_ROUND_SECONDS)


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
