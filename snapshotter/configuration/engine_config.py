"""What one engine needs to know, free of how it was configured.

``snapshotter.engine.assembly`` makes it from the settings; tests and notebooks may make it by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapshotter.configuration.channel_config import ChannelConfig
from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.configuration.notification_config import NotificationConfig
from snapshotter.configuration.option_values import Handling, NewCollections, PositionLost
from snapshotter.configuration.page_config import PageConfig
from snapshotter.configuration.patience import Reconnects, RestartPolicy
from snapshotter.configuration.snapshot_modes import EVERYTHING, MODES, SnapshotPolicy
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.memory import SECONDS
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.position.starts import Start
from snapshotter.reading.chunk_reader import FETCH_SIZE
from streaming.delta.file_keys import KEPT_BYTES
from streaming.delta.further_columns import NOTHING_FURTHER, FurtherColumns
from streaming.delta.table_properties import USUAL, TableForm
from streaming.delta.upkeep_plan import Thresholds
from streaming.events.envelope import Envelope, JsonSerialization
from streaming.fields.rules import FieldRules
from streaming.fields.shape import NO_SHAPE, Shape
from streaming.layout import AnyLayout
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.shaped import Shaped
from streaming.namespaces import Namespace
from streaming.scope.scope import CaptureScope, NameList

LAYOUT: AnyLayout = COLUMNS
"""The layout of every state table whose rows have the shape of documents."""


def layout_of(shape: Shape) -> AnyLayout:
    """The layout of every state table of an engine whose rows have this ``shape``."""
    return Shaped(LAYOUT, shape) if shape else LAYOUT


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """``source_options`` are those of the ``mongodb-changes`` source, without ``trailer`` and ``hints.file``. The
    address, there and in ``uri``, is not shown. ``envelope``: how events are told; None where nothing takes them.
    ``filtered``: what is to be said of changes that are left out of state tables; nothing where none are. ``upkeep``:
    when files of tables need something; None leaves them alone. ``keys_bytes``: memory for keys of tables' files."""

    name: str
    uri: str = field(repr=False)
    warehouse: str
    source_options: Mapping[str, str] = field(repr=False)
    scope: CaptureScope
    strategy: Strategy
    collections_max: int = 0
    collections_fail: bool = False
    signals: Namespace | None = None
    layout: AnyLayout = LAYOUT
    further: FurtherColumns = NOTHING_FURTHER
    form: TableForm = USUAL
    serialization: JsonSerialization = JsonSerialization.LEGACY
    fields: FieldRules = field(default_factory=FieldRules)
    policy: SnapshotPolicy = MODES["initial"]
    initial_collections: NameList | None = None
    new_collections: NewCollections = NewCollections.AUTO
    initial_filters: Mapping[str, str] = field(default_factory=dict)
    snapshot_delay_ms: int = 0
    streaming_delay_ms: int = 0
    limits: Limits = field(default_factory=Limits)
    fetch_size: int = FETCH_SIZE
    landers: int = 4
    trigger_ms: int = 200
    wait_seconds: int = 4
    commit_seconds: float | None = None
    poll_ms: int = 500
    drain_seconds: float = 4.0
    retries_max: int = -1
    retry_wait_ms: int = 10_000
    reconnects: Reconnects = field(default_factory=Reconnects)
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    failures: Handling = Handling.FAIL
    allow_code: bool = False
    status_collection: bool = True
    requests_max: int = 1_000
    remember_seconds: int = SECONDS
    watermarks_keep: bool = False
    repairs_tables: bool = False
    position_lost: PositionLost = PositionLost.FAIL
    heal_first: NameList | None = None
    post_images_enable: bool = False
    position_start: Start | None = None
    partition: str = ""
    oplog_warning_hours: int = 48
    heartbeat_ms: int = 0
    envelope: Envelope | None = None
    filtered: str = ""
    changelog: bool = False
    fields_confirmed: str = ""
    topic_prefix: str = ""
    notifications: NotificationConfig = field(default_factory=NotificationConfig)
    channels: ChannelConfig = field(default_factory=ChannelConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    page: PageConfig = field(default_factory=PageConfig)
    topics: TopicsConfig | None = None
    upkeep: Thresholds | None = field(default_factory=Thresholds)
    keys_bytes: int = KEPT_BYTES

    @property
    def state_location(self) -> str:
        return f"{self.warehouse.rstrip('/')}/_snapshotter/{self.name}"

    @property
    def server_name(self) -> str:
        """What the source is called in what the engine tells of it."""
        return self.topic_prefix or self.name

    @property
    def tells_transactions(self) -> bool:
        """Whether the source is asked which transactions events are part of."""
        return self.source_options.get("provide.transaction.metadata", "false").lower() == "true"

    @property
    def shape(self) -> Shape:
        """The shape of rows."""
        return self.layout.shape if isinstance(self.layout, Shaped) else NO_SHAPE

    def captures_data(self, namespace: Namespace) -> bool:
        """Whether the collection has a table: signals are captured, and are no data."""
        return namespace != self.signals and self.scope.captures(namespace)

    @property
    def needs_post_images(self) -> bool:
        """Whether updated documents come from post-images, which a collection may not keep."""
        full = "update_full" in self.source_options.get("capture.mode", "change_streams_update_full")
        return full and self.source_options.get("capture.mode.full.update.type") == "post_image"

    @property
    def needs_pre_images(self) -> bool:
        """Whether a target tells what documents were before, which a collection may not keep."""
        mode = self.source_options.get("capture.mode", "")
        return self.envelope is not None and mode.endswith("_with_pre_image")

    def loads_initially(self, namespace: Namespace) -> bool:
        """``snapshot.include.collection.list`` narrows the initial load, not the stream; so may a mode of one's own."""
        listed = self.initial_collections is None or self.initial_collections.admits(str(namespace))
        return listed and self._query_of(namespace) is not None

    def initial_filter(self, namespace: Namespace) -> str | None:
        """The query document of what an initial load reads of a collection; None is everything. A filter override goes
        before what the mode says."""
        query = self._query_of(namespace)
        return None if query == EVERYTHING else query

    def _query_of(self, namespace: Namespace) -> str | None:
        name = str(namespace)
        return (
            self.initial_filters[name] if name in self.initial_filters else self.policy.snapshot_query(name)
        )
