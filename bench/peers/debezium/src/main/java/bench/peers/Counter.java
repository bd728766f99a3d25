package bench.peers;

import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/** Counts the wanted records of one topic, and notes when the first and the last were seen. */
final class Counter {

    private final String topic;
    private final Set<String> operations;
    private final long wanted;
    private final CountDownLatch complete = new CountDownLatch(1);
    // Written by the engine's one consumer thread, read by the main thread only after the latch.
    private long first;
    private long last;
    private volatile long seen;

    Counter(String topic, Set<String> operations, long wanted) {
        this.topic = topic;
        this.operations = operations;
        this.wanted = wanted;
    }

    void count(SourceRecord event) {
        if (!event.topic().equals(topic) || !(event.value() instanceof Struct envelope)
                || !operations.contains(envelope.getString("op"))) {
            return;
        }
        long count = seen + 1;
        if (count == 1) {
            first = System.nanoTime();
        }
        if (count == wanted) {
            last = System.nanoTime();
            complete.countDown();
        }
        seen = count;
    }

    /** Waits until all wanted records were seen; fails once none has come for `patienceSeconds`. */
    void await(Engine engine, long patienceSeconds) throws InterruptedException {
        long before = -1;
        while (!complete.await(patienceSeconds, TimeUnit.SECONDS)) {
            engine.check();
            if (seen == before) {
                throw new IllegalStateException("stuck at " + seen + " of " + wanted + " of " + topic);
            }
            before = seen;
        }
    }

    boolean await(long millis) throws InterruptedException {
        return complete.await(millis, TimeUnit.MILLISECONDS);
    }

    /** One JSON line: the time from `asked` and from the first record, both to the last. */
    String line(int round, long asked) {
        return String.format(Locale.ROOT,
                "{\"round\": %d, \"documents\": %d, \"seconds\": %.3f, \"seconds_from_first\": %.3f}",
                round, wanted, (last - asked) / 1e9, (last - first) / 1e9);
    }
}
