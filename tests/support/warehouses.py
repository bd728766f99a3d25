"""Warehouses that all workers of a cluster reach: a folder that they share, and an object store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from tests.support.object_store import client_options, object_store, s3_jars, spark_options


@dataclass(frozen=True)
class Place:
    """The ``options`` for a warehouse, and how deltalake opens what lies there."""

    options: Mapping[str, str]
    uri: str
    storage: dict[str, str] | None = None

    def table(self, database: str, collection: str) -> DeltaTable:
        return DeltaTable(f"{self.uri}/state/{database}/{collection}", storage_options=self.storage)


@contextmanager
def shared_folder(folder: Path) -> Iterator[Place]:
    warehouse = str(folder / "warehouse")
    yield Place({"delta.warehouse": warehouse}, warehouse)


@contextmanager
def store(folder: Path, *, patient: bool = False) -> Iterator[Place]:
    """``patient``: as `object_store.spark_options` has it."""
    with object_store(folder, "tables") as (_, port):
        options = {
            "delta.warehouse": "s3a://tables/warehouse",
            **spark_options(s3_jars(), port, patient=patient),
        }
        yield Place(options, "s3://tables/warehouse", client_options(port))
