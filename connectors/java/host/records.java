package headrace;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Polls one source task on a thread of its own, and keeps its records as columns until they are taken.
 *
 * The records themselves stay here until the worker says how far Kafka has them (`reached`).
 *
 * No private method is synchronized: Janino makes static ones of them, which lock the class.
 */
public final class SourceRecords implements Runnable {
    private static final Logger LOG = LoggerFactory.getLogger("headrace.SourceRecords");

    private final SourceTask task;
    private final Chain chain;
    private final ClassLoader loader;
    private final Thread thread;
    private final JsonConverter json = new JsonConverter();
    private final RecordColumns columns = new RecordColumns();
    private final ArrayDeque polled = new ArrayDeque();
    private long firstPolled;
    private RecordColumns.Rows batch = columns.begin(0);
    private boolean paused;
    private volatile boolean stopping;
    private Throwable failure;

    /** `ofChain`: what its records pass before they cross; null: nothing. */
    public SourceRecords(SourceTask polledTask, Chain ofChain, ClassLoader pluginLoader, String name) {
        task = polledTask;
        chain = ofChain;
        loader = pluginLoader;
        json.configure(Collections.singletonMap("schemas.enable", "false"), false);
        thread = new Thread(this, name);
        thread.setDaemon(true);
        thread.setContextClassLoader(loader);
    }

    public void start() {
        thread.start();
    }

    /** Asks the polling to end; whether it did within the time. */
    public boolean end(long waitMs) throws InterruptedException {
        synchronized (this) {
            stopping = true;
            notifyAll();
        }
        if (chain != null) {
            chain.end();
        }
        if (waitMs > 0) {
            thread.join(waitMs);
        }
        return !thread.isAlive();
    }

    /** Interrupts a poll that does not return. */
    public void interrupt() {
        thread.interrupt();
    }

    public void run() {
        long pause = 1;
        try {
            while (!stopping) {
                long before = System.nanoTime();
                List records = poll();
                if (records != null && !records.isEmpty()) {
                    pause = 1;
                    addAll(records, chain == null ? records : applied(records));
                } else if (System.nanoTime() - before < 1000000L) {
                    pause(pause);  // a task that does not wait by itself would keep a core busy
                    pause = Math.min(100, pause * 2);
                }
            }
        } catch (Throwable thrown) {
            synchronized (this) {
                failure = thrown;
                notifyAll();
            }
        }
    }

    private List poll() throws InterruptedException {
        try {
            return task.poll();
        } catch (RetriableException again) {
            LOG.warn("The task failed to poll records and will poll again", again);
            pause(100);
            return null;
        }
    }

    /** Of each record what the chain makes of it: another record, null or what failed. */
    private List applied(List records) throws InterruptedException {
        List outcomes = new ArrayList(records.size());
        for (Iterator all = records.iterator(); all.hasNext() && !stopping; ) {
            try {
                outcomes.add(chain.apply((SourceRecord) all.next()));
            } catch (Failed failed) {
                outcomes.add(failed);
            }
        }
        return outcomes;
    }

    synchronized void pause(long ms) throws InterruptedException {
        if (!stopping) {
            wait(ms);
        }
    }

    synchronized void addAll(List records, List outcomes) throws InterruptedException {
        Iterator all = records.iterator();
        for (Iterator made = outcomes.iterator(); made.hasNext(); ) {
            while (batch.isFull() && !stopping) {
                wait();
            }
            if (stopping) {
                return;
            }
            SourceRecord record = (SourceRecord) all.next();
            batch.add(record, made.next());
            polled.add(record);
        }
        notifyAll();
    }

    /** Waits for records; what `buffer` holds then, as JSON, or null where there are none. Throws what ended polling. */
    public synchronized String take(long waitMs) throws Throwable {
        if (batch.count == 0 && failure == null && !stopping) {
            wait(waitMs);
        }
        if (batch.count == 0) {
            if (failure != null) {
                throw failure;
            }
            return null;
        }
        String head = columns.written(batch);
        batch = columns.begin(firstPolled + polled.size());
        notifyAll();
        return head;
    }

    /** What `take` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }

    /** Tells the task of all records up to this number, which Kafka has; their partitions with the last offset, as JSON. */
    public String reached(long number) {
        Map last = new LinkedHashMap();
        List done = new ArrayList();
        synchronized (this) {
            while (firstPolled <= number && !polled.isEmpty()) {
                done.add(polled.poll());
                firstPolled++;
            }
        }
        for (Iterator all = done.iterator(); all.hasNext(); ) {
            SourceRecord record = (SourceRecord) all.next();
            last.put(record.sourcePartition(), record.sourceOffset());
        }
        StringBuilder text = new StringBuilder("[");
        for (Iterator all = last.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            text.append(text.length() > 1 ? ",[" : "[").append(text(one.getKey())).append(',');
            text.append(text(one.getValue())).append(']');
        }
        for (Iterator all = done.iterator(); all.hasNext(); ) {
            SourceRecord record = (SourceRecord) all.next();
            int partition = record.kafkaPartition() == null ? 0 : record.kafkaPartition().intValue();
            try {
                task.commitRecord(record, new RecordMetadata(
                    new TopicPartition(record.topic(), partition), -1L, -1,
                    record.timestamp() == null ? -1L : record.timestamp().longValue(), -1, -1));
            } catch (Exception failed) {
                LOG.error("The task failed to commit a record", failed);  // as in Connect that is all
            }
        }
        return text.append(']').toString();
    }

    private String text(Object map) {
        byte[] bytes = map == null ? null : json.fromConnectData("", null, map);
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }
}
