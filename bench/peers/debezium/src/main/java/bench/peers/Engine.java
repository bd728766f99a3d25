package bench.peers;

import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.io.IOException;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine, started, with a consumer that only counts. Records are not serialised (format
 * Connect), offsets are kept in memory, nothing is written anywhere: what is measured is the connector alone.
 */
final class Engine implements AutoCloseable {

    static final String SIGNALS = "debezium_signal";
    private static final String PREFIX = "peer";

    private final DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine;
    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final AtomicReference<String> failure = new AtomicReference<>();

    Engine(Arguments arguments, Map<String, String> options, Consumer<SourceRecord> onRecord) {
        Properties properties = new Properties();
        properties.put("name", PREFIX);
        properties.put("connector.class", "io.debezium.connector.mongodb.MongoDbConnector");
        properties.put("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        properties.put("mongodb.connection.string", arguments.text("uri"));
        properties.put("topic.prefix", PREFIX);
        properties.put("database.include.list", arguments.text("database"));
        properties.put("collection.include.list", arguments.namespace());
        properties.put("snapshot.mode", "no_data");
        properties.put("tombstones.on.delete", "false");
        properties.putAll(options);
        properties.putAll(arguments.connectorOptions());
        engine = DebeziumEngine.create(Connect.class)
                .using(properties)
                .using((success, message, error) -> {
                    if (!success) {
                        failure.set(message + (error == null ? "" : " (" + error + ")"));
                    }
                })
                .notifying((batch, committer) -> {
                    for (ChangeEvent<SourceRecord, SourceRecord> event : batch) {
                        onRecord.accept(event.value());
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
        thread.submit(engine);
    }

    static String topic(Arguments arguments) {
        return PREFIX + "." + arguments.namespace();
    }

    static String signalTopic(Arguments arguments) {
        return PREFIX + "." + arguments.text("database") + "." + SIGNALS;
    }

    /** Throws when the engine has ended by itself: a wait for its records would never end. */
    void check() {
        if (failure.get() != null) {
            throw new IllegalStateException("Debezium stopped: " + failure.get());
        }
    }

    @Override
    public void close() throws IOException {
        engine.close();
        thread.shutdown();
    }
}
