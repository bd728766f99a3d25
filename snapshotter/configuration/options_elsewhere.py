"""Options that do not work here: Debezium's that are still to come, those that mean nothing for a Delta
table, old names.

A configuration pasted from Debezium has many of these. One that is still to come is an error unless its
value is Debezium's default, which asks for nothing (of a class name, the last part counts). One that means
nothing is named in a warning, and one under an old name is taken as what it is called now. Names that end in ``.*``
stand for all that begin so.

Each line: name | Debezium's default(s), further ones after a slash | what it is, or what does its work here.
"""

from __future__ import annotations

PLANNED = """
internal.mongodb.allow.offset.invalidation | false | joining the positions of shards
"""

REFUSED = """
heartbeat.action.query                     | | it writes to the source to move a position, and this one moves by itself
"""
"""What asks for something that would be wrong here."""

MEANINGLESS = """
connector.class                            | MongoDbConnector | this is the connector
tasks.max                                  | 1 | Spark spreads the work
header.converter                           | | headers are texts
header.converter.*                         | | headers are texts
converters                                 | | documents go straight into tables
post.processors                            | | documents go straight into tables
transforms                                 | | each but ExtractNewDocumentState is named as not carried out
transforms.*                               | | named with the one that they belong to
predicates                                 | | each is named in a warning: none is carried out
predicates.*                               | | named with the one that they belong to
topic.creation.*                           | | topics are made by the brokers, or beforehand
topic.naming.strategy                      | DefaultTopicNamingStrategy | it is a Java class
topic.cache.size                           | 10000 | names of topics are not kept
max.batch.size                             | 2048 | engine.batch.max.events does this
max.queue.size                             | 8192 | engine.batch.max.events does this
queue.provider.type                        | memory | there is no queue
poll.dispatch.interval.ms                  | 0 | there is no queue
query.fetch.size                           | 0 | it is for relational databases
snapshot.max.threads.multiplier            | 1 | it is for relational databases
legacy.snapshot.max.threads                | false | it is for relational databases
snapshot.query.mode                        | select_all | it is for relational databases
snapshot.query.mode.custom.name            | | it is for relational databases
snapshot.locking.mode                      | none | it is for relational databases
snapshot.locking.mode.custom.name          | | it is for relational databases
snapshot.lock.timeout.ms                   | 10000 | it is for relational databases
incremental.snapshot.allow.schema.changes  | false | it is for relational databases
include.schema.changes                     | true | it is for relational databases
decimal.handling.mode                      | precise | columns follow BSON's own types
time.precision.mode                        | adaptive | columns follow BSON's own types
binary.handling.mode                       | bytes | columns follow BSON's own types
event.converting.failure.handling.mode     | warn | what fits no column goes to _rescued_data
transaction.metadata.factory               | DefaultTransactionMetadataFactory | it is a Java class
sourceinfo.struct.maker                    | MongoDbSourceInfoStructMaker | it is a Java class
source.struct.version                      | v2 | there is one form of the source
schema.name.adjustment.mode                | none | names of schemas are JSON, which takes them all
field.name.adjustment.mode                 | none | documents are JSON texts, so no field has a name to adjust
extended.headers.enabled                   | true | there are no headers
custom.sanitize.pattern                    | | secrets are always masked
statistics.metrics.enabled                 | true | metrics always tell the percentiles of the lag
executor.shutdown.timeout.ms               | 4000 | the engine ends between two batches
connection.validation.timeout.ms           | 60000 | mongodb.server.selection.timeout.ms does this
signal.emit.failure.max.retries            | 0 | errors.max.retries does this
signal.emit.failure.backoff.ms             | 10000 | retriable.restart.connector.wait.ms does this
mongodb.connection.mode                    | replica_set | there is one way to connect, by mongodb.connection.string
mongodb.members.auto.discover              | true | the driver always does
mongodb.change.stream.full.document        | | no option of Debezium's, though often seen: capture.mode does this
mongodb.poll.interval.ms                   | 30000 | nothing reads it
poll.interval.ms                           | 500 | engine.trigger.interval.ms does this
mongodb.task.id                            | 0 | Spark spreads the work
exactly.once.support                       | requested | each batch is landed once
transaction.boundary                       | poll | each batch is landed once
errors.log.enable                          | false | it is for Kafka Connect
errors.log.include.messages                | false | it is for Kafka Connect
errors.retry.timeout                       | 0 | errors.max.retries does this
errors.retry.delay.max.ms                  | 60000 | retriable.restart.connector.wait.ms does this
config.action.reload                       | restart | it is for Kafka Connect
offset.storage                             | | the position lies under delta.warehouse
offset.storage.*                           | | the position lies under delta.warehouse
offset.flush.interval.ms                   | 60000 | the position is saved with each batch
offset.flush.timeout.ms                    | 5000 | the position is saved with each batch
offset.commit.policy                       | | the position is saved with each batch
schema.history.*                           | | it is for relational databases
database.history                           | | it is for relational databases
database.history.*                         | | it is for relational databases
openlineage.integration.*                  | | lineage is not reported
consumer.override.*                        | | it is for Kafka Connect
internal.*                                 | | it is internal to Debezium
debezium.sink.*                            | | the sink is Delta
debezium.format.*                          | | the sink is Delta
debezium.transforms                        | | each but ExtractNewDocumentState is named as not carried out
debezium.transforms.*                      | | named with the one that they belong to
debezium.predicates                        | | each is named in a warning: none is carried out
debezium.predicates.*                      | | named with the one that they belong to
debezium.api.*                             | | it is for Debezium Server
quarkus.*                                  | | it is for Debezium Server
array.encoding                             | array | tables keep arrays and structs
flatten.struct                             | false | tables keep arrays and structs
flatten.struct.delimiter                   | _ | tables keep arrays and structs
delete.tombstone.handling.mode             | tombstone | delta.deletes.mode does this
route.by.field                             | | it is an option of a transform
replace.null.with.default                  | true | tables keep nulls
"""

RENAMED = {
    "mongodb.hosts": "mongodb.connection.string",
    "mongodb.name": "topic.prefix",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "collection.whitelist": "collection.include.list",
    "collection.blacklist": "collection.exclude.list",
    "field.blacklist": "field.exclude.list",
    "snapshot.collection.include.list": "snapshot.include.collection.list",
    "heartbeat.topics.prefix": "topic.heartbeat.prefix",
}
"""Names that Debezium had once, and what took their place (`old_names`)."""
