"""Tables and collections compared: by both readers of the product's ``verify``, and by one that knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pyspark.sql import SparkSession

from snapshotter.configuration.settings import Settings
from snapshotter.verification.small_table import NeedsSpark
from snapshotter.verification.verify import verify_collection
from streaming.delta.table_paths import state_path, under
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace
from tests.support.tables import difference


def differences(spark: SparkSession, settings: Settings, database: str, names: Iterable[str]) -> list[str]:
    """What they find between collections at rest and their tables; they must agree. At most five lines each."""
    found = []
    for name in names:
        namespace = Namespace(database, name)
        path = under(settings.warehouse(), state_path(namespace))
        sides = settings.connection_uri(), namespace, path, COLUMNS
        result = verify_collection(spark, *sides)
        with suppress(NeedsSpark):
            if (without := verify_collection(None, *sides)) != result:
                found.append(f"verify without Spark, {namespace}: {without}")
        independent = difference(settings.connection_uri(), database, name, path)
        if not result.equal:
            found.append(f"verify, {namespace}: {result}")
        found += [f"{namespace}: {line}" for line in independent[:5]]
    return found
