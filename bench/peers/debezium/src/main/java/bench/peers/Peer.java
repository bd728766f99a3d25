package bench.peers;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Map;
import java.util.Set;
import org.bson.Document;
import org.bson.types.ObjectId;

/**
 * Runs one kind of work on Debezium, several rounds in one JVM (the first warms it up); a JSON line a round.
 *
 * <pre>
 * work=snapshot uri= database= collection= documents=N rounds=2 chunk=1024    signal inserted -> last READ
 * work=stream uri= database= collection= documents=N rounds=2 start=TIME      engine started -> last event
 * debezium.KEY=VALUE   any option of the connector
 * </pre>
 */
public final class Peer {

    private static final long PATIENCE_SECONDS = 60;
    private static final long READY_MILLIS = 250;
    private static final int READY_TRIES = 240;
    private static final String REQUEST = "{\"type\": \"incremental\", \"data-collections\": [\"%s\"]}";

    private Peer() {
    }

    public static void main(String[] words) throws Exception {
        endWithParent();
        int status = 0;
        try {
            Arguments arguments = Arguments.parse(words);
            switch (arguments.text("work")) {
                case "snapshot" -> snapshots(arguments);
                case "stream" -> streams(arguments);
                default -> throw new IllegalArgumentException("work= is neither snapshot nor stream");
            }
        } catch (IllegalArgumentException | IllegalStateException error) {
            System.err.println(error.getMessage());
            status = 1;
        }
        System.exit(status); // the engine leaves threads behind that are no daemons
    }

    /** Standard input is a pipe that is never written to: its end is the end of the process that started us. */
    private static void endWithParent() {
        Thread watch = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (IOException error) {
                System.err.println("lost the parent process: " + error);
            }
            Runtime.getRuntime().halt(1);
        }, "parent");
        watch.setDaemon(true);
        watch.start();
    }

    private static void snapshots(Arguments arguments) throws InterruptedException, IOException {
        Map<String, String> options = Map.of(
                "incremental.snapshot.chunk.size", arguments.text("chunk"),
                "signal.data.collection", arguments.text("database") + "." + Engine.SIGNALS);
        for (int round = 1; round <= arguments.number("rounds"); round++) {
            snapshot(arguments, options, round);
        }
    }

    private static void snapshot(Arguments arguments, Map<String, String> options, int round)
            throws InterruptedException, IOException {
        Counter reads = new Counter(Engine.topic(arguments), Set.of("r"), arguments.number("documents"));
        Counter signals = new Counter(Engine.signalTopic(arguments), Set.of("c"), 1);
        try (MongoClient client = MongoClients.create(arguments.text("uri"))) {
            MongoDatabase database = client.getDatabase(arguments.text("database"));
            MongoCollection<Document> collection = database.getCollection(Engine.SIGNALS);
            try (Engine engine = new Engine(arguments, options, event -> {
                reads.count(event);
                signals.count(event);
            })) {
                awaitStreaming(engine, collection, signals);
                long asked = System.nanoTime();
                String what = String.format(REQUEST, arguments.namespace());
                collection.insertOne(signal("execute-snapshot", what));
                reads.await(engine, PATIENCE_SECONDS);
                System.out.println(reads.line(round, asked));
            } finally {
                collection.drop(); // Debezium leaves two documents a chunk in it
            }
        }
    }

    /** A signal is only seen once the stream is open; a harmless one shows when it is. */
    private static void awaitStreaming(Engine engine, MongoCollection<Document> signals, Counter seen)
            throws InterruptedException {
        for (int tries = 0; tries < READY_TRIES; tries++) {
            signals.insertOne(signal("log", "{\"message\": \"ready\"}"));
            if (seen.await(READY_MILLIS)) {
                return;
            }
            engine.check();
        }
        throw new IllegalStateException("Debezium's change stream did not open in time");
    }

    private static Document signal(String type, String data) {
        return new Document("_id", new ObjectId().toHexString()).append("type", type).append("data", data);
    }

    private static void streams(Arguments arguments) throws InterruptedException, IOException {
        Map<String, String> options = Map.of("capture.start.op.time", arguments.text("start"));
        for (int round = 1; round <= arguments.number("rounds"); round++) {
            long wanted = arguments.number("documents");
            Counter events = new Counter(Engine.topic(arguments), Set.of("c", "u", "d"), wanted);
            long asked = System.nanoTime();
            try (Engine engine = new Engine(arguments, options, events::count)) {
                events.await(engine, PATIENCE_SECONDS);
                System.out.println(events.line(round, asked));
            }
        }
    }
}
