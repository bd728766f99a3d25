"""The client of an engine that runs elsewhere, which also knows where its tables lie.

    from snapshotter import SnapshotClient

    with SnapshotClient("mongodb://…", "shop.signals", warehouse="/lake") as client:
        client.wait(client.execute_snapshot("shop.orders"))
        rows = deltalake.DeltaTable(client.table("shop.orders").path)

`signals.SnapshotClient` is the same without tables: signals know nothing of them.
"""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient

from signals.client.client import Sender
from signals.client.client import SnapshotClient as SignalClient
from snapshotter.errors import ConfigurationError
from snapshotter.table import Table


class SnapshotClient(SignalClient):
    """``client``, ``signal_collection`` and ``sender`` are as in `signals.SnapshotClient`; ``warehouse`` is the
    engine's ``delta.warehouse``, as this program reaches it."""

    warehouse: str | None = None

    def __init__(
        self,
        client: MongoClient[Any] | str,
        signal_collection: str,
        sender: Sender | None = None,
        warehouse: str | None = None,
    ) -> None:
        super().__init__(client, signal_collection, sender)
        self.warehouse = warehouse

    def table(self, collection: str) -> Table:
        """The table of ``database.collection``. Raises ConfigurationError without a warehouse."""
        if self.warehouse is None:
            raise ConfigurationError(
                "this client does not know where tables lie",
                "make it with SnapshotClient(…, warehouse=…): what the engine's delta.warehouse names",
            )
        return Table.of(collection, self.warehouse)
