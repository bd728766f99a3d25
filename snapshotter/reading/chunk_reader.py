"""Chunk reads: Spark tasks that read windows straight from MongoDB into the READ buffer.

One job reads the chunks of several windows of one collection; each partition reads one sub-range with a raw-batch
cursor (read concern majority, at or after the window's low watermark; of an exact window read concern snapshot, as of
that very time) and decodes it to Arrow. No row passes through the driver.

Each partition writes what it decodes into a file in the table's own folder, where the job has one (`ReadJob.folder`):
then nothing of the rows passes through the JVM. Else the buffer is the job's output, checkpointed locally. Where events
are told, each row also keeps its key and document as JSON (`streaming.events.read_envelopes.TEXTS`), under the rules
about fields: in the output, or in a second file, which never becomes the table's. `snapshotter.reading.read_buffer` has
both.

Rows of the output whose ``_trailer`` is not null are none of the table's. The last row of each partition is its
trailer: how many rows, the smallest and the largest key, the cluster time at which its cursor ended, and the signed
time it was told. A document that cannot be processed is a row with its key and why (`streaming.decode.dead_letters`):
where `ReadJob.fails` that is an error, else it tells that the document was there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import Queue
from typing import Any

import bson
import pyarrow as pa
import pyarrow.compute as pc
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from snapshotter.core.values.chunks import Target
from snapshotter.reading.document_errors import DocumentError, Met
from snapshotter.reading.range_find import range_find
from snapshotter.reading.read_buffer import DOCUMENTS, Buffer, Trailer, is_dead, is_trailer
from snapshotter.reading.rows_too import identity, keys_of, lists_of, only
from streaming.bson.elements import documents_of
from streaming.decode.dead_letters import (
    OF_ALL,
    DeadLetter,
    Where,
    dead_letter,
    id_in,
    key_in,
    sort_out,
)
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.new_files import FileWriter, NewFile, discard_job, job_name
from streaming.delta.table_folder import TableFolder
from streaming.events.envelope import JsonSerialization
from streaming.events.read_envelopes import TEXTS, told_texts
from streaming.fields.document_rules import DocumentRules
from streaming.fields.server import projection
from streaming.keys.shard_keys import ShardKey
from streaming.layout import AnyLayout, Decoded, Decoder, TablePlan
from streaming.mongo.deployment import connect
from streaming.mongo.errors import as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

FETCH_SIZE = 8_000
FETCH_BYTES = 4 << 20
"""How large replies of large documents should be: several are held at a time, and each is decoded as one."""
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class SubRange:
    """What one partition reads: a part of the chunk of window ``number``, as it was at ``after_time`` (``exact``), or
    at that time or later. ``rows``: keys whose documents are read, too, where the job's filter does not match them."""

    number: int
    target: Target
    after_time: ClusterTime
    exact: bool = False
    rows: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Everything an executor needs; ``signed`` is the newest ``$clusterTime`` known, as BSON; ``shard_key`` the fields
    that identify a document besides `_id`; ``fields`` says what is left out, renamed or hashed; ``tells``: how rows
    keep their documents as texts, if they do. ``fails``: a document that cannot be processed is an error. ``folder``:
    the table's, which all workers reach and where each partition writes its rows into a file, and their documents into
    another, whose names begin with the job's ``name``; None: they are the job's output."""

    uri: str = field(repr=False)
    namespace: Namespace
    filter: Mapping[str, Any] | None
    layout: AnyLayout
    plan: TablePlan
    ranges: tuple[SubRange, ...]
    signed: bytes | None
    fetch_size: int = FETCH_SIZE
    shard_key: ShardKey = ()
    fields: DocumentRules | None = None
    tells: JsonSerialization | None = None
    fails: bool = True
    folder: TableFolder | None = None
    name: str = field(default_factory=job_name)


def read_schema(job: ReadJob) -> StructType:
    """Columns of a READ buffer: those of the decoder (where rows are written to files the key alone), the texts that
    READs are told with if they are kept there, the window's number, the trailer."""
    columns = job.layout.spark_schema(job.plan).fields[: None if job.folder is None else 1]
    told = [StructField(name, StringType()) for name in _told_in(job)]
    extra = [*told, StructField("_window", IntegerType()), StructField("_trailer", StringType())]
    return StructType([*columns, *extra])


def read(spark: SparkSession, job: ReadJob) -> Buffer:
    """Run the job; returns when every cursor is exhausted and every row is held. Raises DocumentError for a document
    that cannot be processed, where the job says that this is one. A job that fails leaves no file behind."""
    try:
        return _read(spark, job)
    except BaseException:
        if job.folder is not None:
            discard_job(job.folder, job.name)
        raise


def _read(spark: SparkSession, job: ReadJob) -> Buffer:
    count = len(job.ranges)
    made = spark.range(0, count, 1, count).mapInArrow(partition_reader(job), read_schema(job))
    frame = held(made, at_once=job.folder is None)
    texts = [row[0] for row in frame.where(is_trailer()).select("_trailer").collect()]
    if len(texts) != count:
        raise RuntimeError(f"{count} ranges of {job.namespace} were to be read, {len(texts)} reported an end")
    trailers = tuple(Trailer.from_text(job.layout, text) for text in texts)
    dead = sum(trailer.dead for trailer in trailers)
    if dead and job.fails:
        letter = DeadLetter.from_text(frame.where(is_dead()).select("_trailer").collect()[0][0])
        free_checkpoint(frame)
        raise DocumentError(letter.error, Met(letter.where, str(job.namespace), letter.id), others=dead - 1)
    return Buffer(frame, job.layout, job.plan, trailers, job.folder)


def partition_reader(job: ReadJob) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs on executors: partition i reads ``job.ranges[i]``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from _read_range(job, job.ranges[index])

    return run


def _read_range(job: ReadJob, part: SubRange) -> Iterator[pa.RecordBatch]:
    if job.folder is None:
        yield from _rows_read(job, part, None)
        return
    named, columns = (job.name, part.number), job.layout.arrow_schema(job.plan)
    files = _Files(
        FileWriter(job.folder, columns, *named, part.after_time.to_int()),
        None if job.tells is None else FileWriter(job.folder, DOCUMENTS, *named, plain=DOCUMENTS.names),
    )
    try:
        yield from _rows_read(job, part, files)
    except BaseException:
        files.discard()
        raise


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that a partition writes: of its ``rows``, and of their ``documents`` where these are told."""

    rows: FileWriter
    documents: FileWriter | None

    def add(self, rows: pa.RecordBatch, texts: Sequence[pa.Array]) -> None:
        """Write these rows, and their documents as ``texts``."""
        self.rows.add(rows)
        if self.documents is not None:
            told = [rows.column(0), *texts]
            self.documents.add(pa.RecordBatch.from_arrays(told, schema=DOCUMENTS))

    def close(self) -> tuple[NewFile | None, NewFile | None]:
        """As `FileWriter.close`, of each."""
        return self.rows.close(), None if self.documents is None else self.documents.close()

    def discard(self) -> None:
        self.rows.discard()
        if self.documents is not None:
            self.documents.discard()


def _rows_read(job: ReadJob, part: SubRange, files: _Files | None) -> Iterator[pa.RecordBatch]:
    """What the partition puts out; its rows too, where they are written to no ``files``."""
    decoder = job.layout.decoder(job.plan, job.shard_key)
    seen, rules = _Seen(job.layout.least_plan()), job.fields
    with connect(job.uri).start_session(causal_consistency=not part.exact) as session:
        _advance(session, job.signed, part.after_time)
        try:
            # Its cursor ends here, also where a document fails: the error would keep it until Python collects both.
            with closing(_ahead(_raw_batches(session, job, part))) as fetched:
                for raw in fetched:
                    parts, failed = _decoded(raw, decoder, rules, job.tells)
                    for decoded, texts in parts:
                        seen.add(decoded.batch.column(0), decoded.keys_sorted, decoded.unknown)
                        if files is None:
                            yield _with_columns(decoded.batch, part.number, texts)
                        else:
                            files.add(decoded.batch, texts)
                    seen.size_bytes += len(raw)
                    if failed:
                        yield seen.without(_dead_rows(job, part.number, failed))
        except PyMongoError as error:
            raise as_source_error(error, f"cannot read a chunk of {job.namespace}") from error
        reached = session.operation_time if not part.exact else None
        ended = part.after_time if reached is None else ClusterTime(reached.time, reached.inc)
        signed = session.cluster_time
    written = (None, None) if files is None else files.close()
    text = seen.trailer(part.number, ended, signed, *written).to_text()
    yield _extra_rows(_row_schema(job), part.number, [text], [None])


Failed = Sequence[tuple[bytes, Exception]]
"""Documents that cannot be processed, and why."""


def _decoded(
    raw: bytes,
    decoder: Decoder[TablePlan],
    rules: DocumentRules | None,
    tells: JsonSerialization | None = None,
) -> tuple[list[tuple[Decoded[TablePlan], Sequence[pa.Array]]], Failed]:
    """Documents that lie one behind the other under the rules about their fields, as rows, and as texts where they are
    told so; and those that fail: of one that is told nothing may be damaged, whether it has a column or not."""

    def decode(some: bytes) -> tuple[Decoded[TablePlan], Sequence[pa.Array]]:
        ruled = some if rules is None else rules.documents(some)
        texts = () if tells is None else told_texts(tells, documents_of(ruled))
        return decoder.decode(ruled), texts

    try:
        return [decode(raw)], ()
    except OF_ALL:
        raise
    except Exception:  # noqa: BLE001 - met again by the one document whose it is
        documents = documents_of(raw)
        parts, failed = sort_out(len(documents), lambda begin, end: decode(b"".join(documents[begin:end])))
        return parts, [(documents[place], error) for place, error in failed]


def _dead_rows(job: ReadJob, number: int, failed: Failed) -> pa.RecordBatch:
    """What tells of them: their keys, as far as these are known, and why."""
    letters = [dead_letter(Where.READ, why, raw, job.fields, id_=id_in(raw)).to_text() for raw, why in failed]
    keys = [key_in(raw, job.shard_key) for raw, _ in failed]
    return _extra_rows(_row_schema(job), number, letters, keys)


def _advance(session: ClientSession, signed: bytes | None, after_time: ClusterTime) -> None:
    if signed is not None:
        session.advance_cluster_time(bson.decode(signed))
    session.advance_operation_time(Timestamp(after_time.t, after_time.i))


def _raw_batches(session: ClientSession, job: ReadJob, part: SubRange) -> Generator[bytes, None, None]:
    """What a partition reads, as raw documents that lie one behind the other."""
    shown = None if job.fields is None else projection(job.fields.rules)
    if not part.rows:
        yield from _found(session, job, part, range_find(part.target, filter=job.filter).to_find(shown))
        return
    rest = set(part.rows)
    for raw in _found(session, job, part, range_find(part.target, filter=job.filter).to_find(shown)):
        rest.difference_update(keys_of(raw, job.shard_key))
        yield raw
    ids = _found(session, job, part, range_find(part.target).to_find(identity(job.shard_key)))
    for some in lists_of(ids, rest, job.shard_key):
        for raw in _found(session, job, part, range_find(some).to_find(shown)):
            yield only(raw, rest, job.shard_key)


def _found(session: ClientSession, job: ReadJob, part: SubRange, asked: Mapping[str, Any]) -> Iterator[bytes]:
    concern = AsOf(part.after_time) if part.exact else ReadConcern("majority")
    database = session.client[job.namespace.database]
    collection = database.get_collection(job.namespace.collection, read_concern=concern)
    with collection.find_raw_batches(**asked, batch_size=job.fetch_size, session=session) as cursor:
        yield from cursor


class AsOf(ReadConcern):
    """The state at one moment: read concern snapshot with ``atClusterTime``, for which the driver has no argument. (Its
    snapshot sessions read as of whenever their first command happens to run.)"""

    def __init__(self, time: ClusterTime) -> None:
        super().__init__("snapshot")
        self._time = time

    @property
    def document(self) -> dict[str, Any]:
        return {"level": "snapshot", "atClusterTime": Timestamp(self._time.t, self._time.i)}


def _ahead(batches: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    """Fetch on a thread while the caller decodes: the server and this process work at the same time."""
    fetched: Queue[bytes | BaseException | None] = Queue(maxsize=_AHEAD)
    stopped = threading.Event()

    def fetch() -> None:
        try:
            with closing(batches):
                for raw in batches:
                    fetched.put(raw)
                    if stopped.is_set():
                        return
            fetched.put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the reader, who raises it
            fetched.put(error)

    thread = threading.Thread(target=fetch, name="chunk-fetch", daemon=True)
    thread.start()
    try:
        while (item := fetched.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            if item:
                yield item
    finally:
        # A thread that waits for room in the queue sees ``stopped`` only after its item is taken out.
        stopped.set()
        while thread.is_alive():
            if not fetched.empty():
                fetched.get()
            thread.join(0.01)


class _Seen:
    """What a partition has read so far. Keys must be strictly ascending over the whole of it: that proves that no key
    came twice, which appends rely on."""

    def __init__(self, nothing: TablePlan) -> None:
        self.rows = 0
        self.size_bytes = 0
        self.min_key: str | None = None
        self.max_key: str | None = None
        self.unique = True
        self.unknown = nothing
        self.dead = 0
        self.keyless = 0

    def without(self, dead: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows of documents that cannot be processed; the same rows."""
        self.dead += dead.num_rows
        self.keyless += dead.column(0).null_count
        return dead

    def add(self, keys: pa.Array, ascending: bool, unknown: TablePlan) -> None:
        if len(keys) == 0:
            return
        ends = (keys[0], keys[-1]) if ascending else pc.min_max(keys).values()
        first, last = (end.as_py() for end in ends)
        if not ascending or (self.max_key is not None and not self.max_key < first):
            self.unique = False
        self.min_key = first if self.min_key is None else min(self.min_key, first)
        self.max_key = last if self.max_key is None else max(self.max_key, last)
        self.rows += len(keys)
        self.unknown = self.unknown.joined(unknown)

    def trailer(
        self,
        number: int,
        ended: ClusterTime,
        signed: Mapping[str, Any] | None,
        file: NewFile | None,
        documents: NewFile | None,
    ) -> Trailer:
        """What there is to say of the partition ``number`` in the end: when its cursor ``ended``, the ``signed`` time
        that it was told, and the ``file`` that it has written, and that of their ``documents``."""
        return Trailer(
            number=number,
            rows=self.rows,
            size_bytes=self.size_bytes,
            ended=ended,
            min_key=self.min_key,
            max_key=self.max_key,
            unique=self.unique,
            unknown=self.unknown,
            signed=signed,
            dead=self.dead,
            keyless=self.keyless,
            file=file,
            documents=documents,
        )


def _row_schema(job: ReadJob) -> pa.Schema:
    columns = [*job.layout.arrow_schema(job.plan)][: None if job.folder is None else 1]
    return pa.schema([*columns, *(TEXTS.field(name) for name in _told_in(job))])


def _told_in(job: ReadJob) -> Sequence[str]:
    """The columns of texts in the job's frame: where there are files, they lie in these."""
    return TEXTS.names if job.tells is not None and job.folder is None else ()


def _with_columns(batch: pa.RecordBatch, number: int, texts: Sequence[pa.Array]) -> pa.RecordBatch:
    rows = batch.num_rows
    windows, told = pa.repeat(pa.scalar(number, pa.int32()), rows), [*TEXTS][: len(texts)]
    fields = [*batch.schema, *told, pa.field("_window", pa.int32()), pa.field("_trailer", pa.string())]
    arrays = [*batch.columns, *texts, windows, pa.nulls(rows, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _extra_rows(
    schema: pa.Schema, number: int, texts: Sequence[str], keys: Sequence[str | None]
) -> pa.RecordBatch:
    """Rows of ``schema``, the table's, that are none of the table's: they have ``keys``, ``texts``, and the number of
    the window."""
    rows = len(texts)
    fields = [*schema, pa.field("_window", pa.int32()), pa.field("_trailer", pa.string())]
    arrays = [pa.array(keys, pa.string()), *(pa.nulls(rows, f.type) for f in [*schema][1:])]
    arrays += [pa.repeat(pa.scalar(number, pa.int32()), rows), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
