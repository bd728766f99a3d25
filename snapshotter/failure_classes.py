"""What can go wrong, as named states: each has a class, and the next step to take. Pure.

A class says what kind of thing is wrong, and so who can cure it; a *condition* is one state of it, under a name that
stays. Every error of MongoDB, Spark, Delta, the storage, Kafka, or our own is in exactly one condition
(`snapshotter.diagnosis`), and what operators see of an error (exit code, status, notifications, log) says which.

    connection      somebody at the other end of a network does not answer
    permission      the other end answers, and refuses: credentials, privileges
    schema          documents or rows do not fit the columns that are there
    resource        disk, memory, executors, limits
    position-lost   the oplog no longer holds the position
    configuration   an option, an argument, a signal, or the set-up around the engine
    sink            the tables, their storage, or topics: not ours to write, busy, changed by others
    internal        a defect, or what nobody has foreseen

`engine.auto.restart.enabled` never restarts what is of a class that ``curable`` leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureClass(StrEnum):
    """What kind of thing is wrong: see the text of this module."""

    CONNECTION = "connection"
    PERMISSION = "permission"
    SCHEMA = "schema"
    RESOURCE = "resource"
    POSITION_LOST = "position-lost"
    CONFIGURATION = "configuration"
    SINK = "sink"
    INTERNAL = "internal"

    @property
    def curable(self) -> bool:
        """Whether time may cure it, so that a restart is worth trying."""
        return self not in _FOR_A_PERSON


_FOR_A_PERSON = (FailureClass.PERMISSION, FailureClass.CONFIGURATION, FailureClass.POSITION_LOST)


@dataclass(frozen=True, slots=True)
class Condition:
    """One named state. ``next_step`` is what to do where the error does not bring a better one."""

    name: str
    failure: FailureClass
    next_step: str


_REPORT = "with the error in full, as the log file has it (--log-file)"

_ALL = (
    Condition(
        "source-unreachable",
        FailureClass.CONNECTION,
        "check that the addresses in mongodb.connection.string can be reached from here, and start again",
    ),
    Condition(
        "operation-ended",
        FailureClass.CONNECTION,
        "see who ends operations at the server (killOp), or what limits their time there, and start again",
    ),
    Condition(
        "network-failing",
        FailureClass.CONNECTION,
        "check the network between this machine, Spark's executors and delta.warehouse, and start again",
    ),
    Condition(
        "kafka-unreachable",
        FailureClass.CONNECTION,
        "check that Kafka's brokers can be reached from here; what waits for them is sent then",
    ),
    Condition(
        "source-denied",
        FailureClass.PERMISSION,
        "check mongodb.user, mongodb.password, mongodb.authsource, and the privileges of that user",
    ),
    Condition(
        "storage-denied",
        FailureClass.PERMISSION,
        "check delta.warehouse, and the permission to read and write there",
    ),
    Condition(
        "kafka-denied",
        FailureClass.PERMISSION,
        "check the credentials for Kafka, and what its user may do there",
    ),
    Condition(
        "schema-mismatch",
        FailureClass.SCHEMA,
        "compare the table's columns with the documents; once they fit, read the collection again with "
        "`snapshotter execute-snapshot -c FILE COLLECTION --reconcile`",
    ),
    Condition(
        "malformed-document",
        FailureClass.SCHEMA,
        "look at the document that the message names, and correct it at MongoDB",
    ),
    Condition(
        "unprocessable-document",
        FailureClass.SCHEMA,
        "correct the document, or the rule that it breaks; or let event.processing.failure.handling.mode be warn, so "
        "that it goes to the dead letters, and start again",
    ),
    Condition("disk-full", FailureClass.RESOURCE, "make room on the disk, and start again"),
    Condition(
        "files-exhausted",
        FailureClass.RESOURCE,
        "let the process open more files (ulimit -n), and start again",
    ),
    Condition(
        "heap-too-small",
        FailureClass.RESOURCE,
        "give Spark more memory (spark.driver.memory, spark.executor.memory), and start again",
    ),
    Condition(
        "memory-short",
        FailureClass.RESOURCE,
        "give the machine more memory or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "worker-killed",
        FailureClass.RESOURCE,
        "where memory was short, give the machine more or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "ports-taken",
        FailureClass.RESOURCE,
        "free the port that the message names, or let Spark take another one (spark.driver.port, spark.ui.port, "
        "spark.port.maxRetries), and start again",
    ),
    # Spark gives a Python process ten seconds, fixed, to start and call back; half of one is usual.
    Condition(
        "worker-late",
        FailureClass.RESOURCE,
        "check that the Python of PYSPARK_PYTHON can import pyspark, and that the machine has time to spare",
    ),
    Condition(
        "executor-lost",
        FailureClass.RESOURCE,
        "see why Spark's executors end (memory, most often, or a node that is taken away), and start again",
    ),
    Condition(
        "spark-lost",
        FailureClass.RESOURCE,
        "Spark's JVM has ended, or its session was stopped: see why (memory, most often), and start again",
    ),
    Condition(
        "result-too-large",
        FailureClass.RESOURCE,
        "raise spark.driver.maxResultSize, or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "event-too-large", FailureClass.RESOURCE, "the change stream cannot deliver an event above 16 MB"
    ),
    Condition(
        "source-exhausted",
        FailureClass.RESOURCE,
        "give the MongoDB server the disk or the memory that it asks for, and start again",
    ),
    Condition(
        "server-not-started",
        FailureClass.RESOURCE,
        "see in the message what the server for the demo or the tests lacks",
    ),
    Condition(
        "position-lost",
        FailureClass.POSITION_LOST,
        "the position is lost: with engine.position.lost=heal each captured collection is compared with its table",
    ),
    Condition(
        "wrong-option",
        FailureClass.CONFIGURATION,
        "correct what the message names, check it with `snapshotter config -c FILE`, and start again",
    ),
    Condition(
        "wrong-signal", FailureClass.CONFIGURATION, "correct the signal, and send it again under a new id"
    ),
    Condition(
        "name-taken",
        FailureClass.CONFIGURATION,
        "stop the other engine of this name, or give this one a name of its own, and start again",
    ),
    Condition(
        "watermark-lost",
        FailureClass.CONFIGURATION,
        "see who deletes or changes the documents of windows in the signal collection: only the engine may",
    ),
    Condition(
        "spark-not-started",
        FailureClass.CONFIGURATION,
        "Spark's JVM ended before it was ready, and has said why above: check spark.master, spark.driver.memory, "
        "spark.jars.packages and the like, and that there is a Java",
    ),
    Condition(
        "no-python",
        FailureClass.CONFIGURATION,
        "let PYSPARK_PYTHON name a Python that is there on every executor",
    ),
    Condition(
        "wrong-libraries",
        FailureClass.CONFIGURATION,
        "install the versions of Spark and Delta that the release notes name, on driver and executors",
    ),
    Condition(
        "storage-busy",
        FailureClass.SINK,
        "the storage asks for fewer requests: leave it time, or raise engine.trigger.interval.ms, and start again",
    ),
    Condition(
        "storage-failing",
        FailureClass.SINK,
        "check delta.warehouse, that it can be written to, and that Spark's executors live; then start again",
    ),
    Condition(
        "commit-conflict",
        FailureClass.SINK,
        "see which other writer commits to the table (DESCRIBE HISTORY names it), end that, and start again",
    ),
    Condition(
        "table-altered",
        FailureClass.SINK,
        "read the collection again with `snapshotter execute-snapshot -c FILE COLLECTION --reconcile`",
    ),
    Condition(
        "table-owned",
        FailureClass.SINK,
        "let its owner write to the table alone, or hand it over with `snapshotter take-over`",
    ),
    Condition(
        "table-unusable",
        FailureClass.SINK,
        "let the table have only features that this version of Delta can write, or take it out of the way",
    ),
    Condition(
        "kafka-failing",
        FailureClass.SINK,
        "see what Kafka says of the topic in the message, and correct it there",
    ),
    Condition(
        "refused",
        FailureClass.CONFIGURATION,
        "do what the message says; `snapshotter status -c FILE` shows the rest",
    ),
    Condition(
        "stream-paused", FailureClass.CONFIGURATION, "resume the stream: `snapshotter resume-stream -c FILE`"
    ),
    Condition("interrupted", FailureClass.INTERNAL, "start it again: it goes on where it was"),
    Condition("unforeseen", FailureClass.INTERNAL, f"start again; if it comes back, report it {_REPORT}"),
    Condition("defect", FailureClass.INTERNAL, f"report it {_REPORT}: a restart will meet it again"),
)
CONDITIONS = {condition.name: condition for condition in _ALL}
"""Every condition by its name."""
UNEXPECTED = frozenset({"unforeseen", "defect"})
"""The conditions of errors that nobody has foreseen: a traceback is worth showing."""
