"""Tables and collections compared twice: by the product's ``verify``, and by a reader that knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from snapshotter.configuration.settings import Settings
from snapshotter.verification.verify import verify_collection
from streaming.delta.table_paths import state_path, under
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace
from tests.support.tables import difference


def differences(spark: SparkSession, settings: Settings, database: str, names: Iterable[str]) -> list[str]:
    """What both find between collections at rest and their tables; the two must agree. At most five lines each."""
    found = []
    for name in names:
        namespace = Namespace(database, name)
        path = under(settings.warehouse(), state_path(namespace))
        result = verify_collection(spark, settings.connection_uri(), namespace, path, COLUMNS)
        independent = difference(settings.connection_uri(), database, name, path)
        if not result.equal:
            found.append(f"verify, {namespace}: {result}")
        found += [f"{namespace}: {line}" for line in independent[:5]]
    return found
