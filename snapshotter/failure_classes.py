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
    """One named state. ``cause`` is what has happened; ``next_step`` what to do where the error does not bring a better
    one."""

    name: str
    failure: FailureClass
    cause: str
    next_step: str


_REPORT = "with the error in full, as the log file has it (--log-file)"

_ALL = (
    Condition(
        "source-unreachable",
        FailureClass.CONNECTION,
        "MongoDB does not answer, or has no primary at the moment",
        "check that the addresses in mongodb.connection.string can be reached from here, and start again",
    ),
    Condition(
        "operation-ended",
        FailureClass.CONNECTION,
        "somebody ended an operation at the server, or its time there was up",
        "see who ends operations at the server (killOp), or what limits their time there, and start again",
    ),
    Condition(
        "network-failing",
        FailureClass.CONNECTION,
        "a connection of Spark's, or to the storage, could not be made or was broken off",
        "check the network between this machine, Spark's executors and delta.warehouse, and start again",
    ),
    Condition(
        "kafka-unreachable",
        FailureClass.CONNECTION,
        "no broker of Kafka's answers",
        "check that Kafka's brokers can be reached from here; what waits for them is sent then",
    ),
    Condition(
        "source-denied",
        FailureClass.PERMISSION,
        "MongoDB does not take the credentials, or the user lacks a privilege",
        "check mongodb.user, mongodb.password, mongodb.authsource, and the privileges of that user",
    ),
    Condition(
        "storage-denied",
        FailureClass.PERMISSION,
        "the storage does not let the engine, or Spark's executors, read or write there",
        "check delta.warehouse, and the permission to read and write there",
    ),
    Condition(
        "kafka-denied",
        FailureClass.PERMISSION,
        "Kafka does not take the credentials, or its user may not do that",
        "check the credentials for Kafka, and what its user may do there",
    ),
    Condition(
        "schema-mismatch",
        FailureClass.SCHEMA,
        "rows do not fit the columns that the table has",
        "compare the table's columns with the documents; once they fit, read the collection again with "
        "`snapshotter execute-snapshot -c FILE COLLECTION --reconcile`",
    ),
    Condition(
        "malformed-document",
        FailureClass.SCHEMA,
        "what MongoDB sent is no well-formed BSON, or has no id that can be a key",
        "look at the document that the message names, and correct it at MongoDB",
    ),
    Condition(
        "unprocessable-document",
        FailureClass.SCHEMA,
        "a document or an event breaks a rule of the configuration, so that it has no row",
        "correct the document, or the rule that it breaks; or let event.processing.failure.handling.mode be warn, so "
        "that it goes to the dead letters, and start again",
    ),
    Condition(
        "disk-full",
        FailureClass.RESOURCE,
        "a disk, or a quota on it, is full: of this machine, of an executor or of the storage",
        "make room on the disk, and start again",
    ),
    Condition(
        "files-exhausted",
        FailureClass.RESOURCE,
        "the process has as many files open as the system lets it",
        "let the process open more files (ulimit -n), and start again",
    ),
    Condition(
        "heap-too-small",
        FailureClass.RESOURCE,
        "Java's heap has no room for what is done at once",
        "give Spark more memory (spark.driver.memory, spark.executor.memory), and start again",
    ),
    Condition(
        "memory-short",
        FailureClass.RESOURCE,
        "the machine has no memory to give",
        "give the machine more memory or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "worker-killed",
        FailureClass.RESOURCE,
        "a Python worker of Spark's ended in the midst of its work, killed for its memory, most often",
        "where memory was short, give the machine more or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "ports-taken",
        FailureClass.RESOURCE,
        "another process has a port that Spark or the engine needs",
        "free the port that the message names, or let Spark take another one (spark.driver.port, spark.ui.port, "
        "spark.port.maxRetries), and start again",
    ),
    # Spark gives a Python process ten seconds, fixed, to start and call back; half of one is usual.
    Condition(
        "worker-late",
        FailureClass.RESOURCE,
        "a Python worker of Spark's did not start within ten seconds",
        "check that the Python of PYSPARK_PYTHON can import pyspark, and that the machine has time to spare",
    ),
    Condition(
        "executor-lost",
        FailureClass.RESOURCE,
        "an executor of Spark's ended, and what it held is gone",
        "see why Spark's executors end (memory, most often, or a node that is taken away), and start again",
    ),
    Condition(
        "spark-lost",
        FailureClass.RESOURCE,
        "the JVM of Spark's driver has ended",
        "Spark's JVM has ended, or its session was stopped: see why (memory, most often), and start again",
    ),
    Condition(
        "result-too-large",
        FailureClass.RESOURCE,
        "more was collected on Spark's driver than it may hold",
        "raise spark.driver.maxResultSize, or lower engine.batch.max.events, and start again",
    ),
    Condition(
        "event-too-large",
        FailureClass.RESOURCE,
        "MongoDB has a change event above 16 MB, which it does not deliver whole",
        "the change stream cannot deliver an event above 16 MB",
    ),
    Condition(
        "source-exhausted",
        FailureClass.RESOURCE,
        "the MongoDB server is out of disk or memory",
        "give the MongoDB server the disk or the memory that it asks for, and start again",
    ),
    Condition(
        "server-not-started",
        FailureClass.RESOURCE,
        "a MongoDB or Kafka for the demo, the sandbox or the tests did not start",
        "see in the message what the server for the demo or the tests lacks",
    ),
    Condition(
        "position-lost",
        FailureClass.POSITION_LOST,
        "the oplog no longer reaches back to the position, or the deployment is another one",
        "the position is lost: with engine.position.lost=heal each captured collection is compared with its table",
    ),
    Condition(
        "wrong-option",
        FailureClass.CONFIGURATION,
        "an option, an argument or the deployment is not what it has to be",
        "correct what the message names, check it with `snapshotter config -c FILE`, and start again",
    ),
    Condition(
        "wrong-signal",
        FailureClass.CONFIGURATION,
        "a signal cannot be carried out as it is",
        "correct the signal, and send it again under a new id",
    ),
    Condition(
        "name-taken",
        FailureClass.CONFIGURATION,
        "another engine of this name runs, or has taken this one's lock",
        "stop the other engine of this name, or give this one a name of its own, and start again",
    ),
    Condition(
        "watermark-lost",
        FailureClass.CONFIGURATION,
        "a document that bounds a window went before the window closed",
        "see who deletes or changes the documents of windows in the signal collection: only the engine may",
    ),
    Condition(
        "spark-not-started",
        FailureClass.CONFIGURATION,
        "Java was started for Spark, and ended before it was ready",
        "Spark's JVM ended before it was ready, and has said why above: check spark.master, spark.driver.memory, "
        "spark.jars.packages and the like, and that there is a Java",
    ),
    Condition(
        "no-python",
        FailureClass.CONFIGURATION,
        "a machine of Spark's has no Python where it is looked for",
        "let PYSPARK_PYTHON name a Python that is there on every executor",
    ),
    Condition(
        "wrong-libraries",
        FailureClass.CONFIGURATION,
        "a class or a module is missing, or of another version",
        "install the versions of Spark and Delta that the release notes name, on driver and executors",
    ),
    Condition(
        "storage-busy",
        FailureClass.SINK,
        "the storage throttles: it was asked for too much at once",
        "the storage asks for fewer requests: leave it time, or raise engine.trigger.interval.ms, and start again",
    ),
    Condition(
        "storage-failing",
        FailureClass.SINK,
        "the storage failed to read or write, without saying more",
        "check delta.warehouse, that it can be written to, and that Spark's executors live; then start again",
    ),
    Condition(
        "commit-conflict",
        FailureClass.SINK,
        "another writer committed to the same table in the same moment",
        "see which other writer commits to the table (DESCRIBE HISTORY names it), end that, and start again",
    ),
    Condition(
        "table-altered",
        FailureClass.SINK,
        "somebody else has changed the table's rows, put another one in its place, or an older one",
        "read the collection again with `snapshotter execute-snapshot -c FILE COLLECTION --reconcile`",
    ),
    Condition(
        "table-owned",
        FailureClass.SINK,
        "the table is another engine's, by its property snapshotter.owner",
        "let its owner write to the table alone, or hand it over with `snapshotter take-over`",
    ),
    Condition(
        "table-unusable",
        FailureClass.SINK,
        "the table has something that Delta, or this engine, cannot write to",
        "let the table have only features that this version of Delta can write, or take it out of the way",
    ),
    Condition(
        "kafka-failing",
        FailureClass.SINK,
        "Kafka refuses a topic or a record",
        "see what Kafka says of the topic in the message, and correct it there",
    ),
    Condition(
        "refused",
        FailureClass.CONFIGURATION,
        "it cannot be done as things are; the message says why",
        "do what the message says; `snapshotter status -c FILE` shows the rest",
    ),
    Condition(
        "stream-paused",
        FailureClass.CONFIGURATION,
        "the stream was paused, and nobody has resumed it",
        "resume the stream: `snapshotter resume-stream -c FILE`",
    ),
    Condition(
        "interrupted",
        FailureClass.INTERNAL,
        "somebody interrupted it",
        "start it again: it goes on where it was",
    ),
    Condition(
        "unforeseen",
        FailureClass.INTERNAL,
        "nobody has foreseen this error; it may pass",
        f"start again; if it comes back, report it {_REPORT}",
    ),
    Condition(
        "defect",
        FailureClass.INTERNAL,
        "a mistake in the code, or something that it takes for impossible",
        f"report it {_REPORT}: a restart will meet it again",
    ),
)
CONDITIONS = {condition.name: condition for condition in _ALL}
"""Every condition by its name."""
UNEXPECTED = frozenset({"unforeseen", "defect"})
"""The conditions of errors that nobody has foreseen: a traceback is worth showing."""
