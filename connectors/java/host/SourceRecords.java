package headrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Polls one source task on its own thread, and keeps its records as columns until they are taken.
 *
 * Source partitions and offsets of records stay here until the worker says how far Kafka has the records (`reached`).
 * So do the records themselves, if the task has its own commitRecord.
 */
public final class SourceRecords implements Runnable {
    /** Bytes of a receipt, a record's position in Kafka. */
    static final int RECEIPT = 32;

    private static final Logger LOG = LoggerFactory.getLogger("headrace.SourceRecords");

    private final SourceTask task;
    private final JavaStage stage;
    private final ClassLoader loader;
    private final Thread thread;
    private final JsonConverter json = new JsonConverter();
    private final RecordColumns columns;
    private final Transactions transactions;
    private final boolean wantsReceipts;
    private final Polled polled;
    private final Queue<Reached> untold = new ArrayDeque<>();
    private long firstPolled;
    private RecordColumns.Rows batch;
    private String ends;
    private String takenEnds;
    private volatile boolean stopping;
    private Throwable failure;

    /**
     * `ofStage`: applied to its records before they are sent; null: none. `ofHeaders`: makes the bytes of headers;
     * null: the stage does. `ofTransactions`: for a task that decides where its transactions end; else null.
     */
    public SourceRecords(SourceTask polledTask, JavaStage ofStage, HeaderConverter ofHeaders,
                         Transactions ofTransactions, ClassLoader pluginLoader, String name) {
        task = polledTask;
        wantsReceipts = hasCommitRecord(task.getClass());
        polled = new Polled(wantsReceipts);
        stage = ofStage;
        transactions = ofTransactions;
        loader = pluginLoader;
        json.configure(Map.of("schemas.enable", "false"), false);
        columns = new RecordColumns(ofHeaders);
        batch = columns.begin(0);
        thread = new Thread(this, name);
        thread.setDaemon(true);
        thread.setContextClassLoader(loader);
    }

    public void start() {
        thread.start();
    }

    /** Asks polling to end; returns true if it ended within the time. */
    public boolean end(long waitMs) throws InterruptedException {
        synchronized (this) {
            stopping = true;
            notifyAll();
        }
        if (stage != null) {
            stage.end();
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

    @Override
    public void run() {
        long pause = 1;
        try {
            while (!stopping) {
                long before = System.nanoTime();
                List<SourceRecord> records = poll();
                if (records != null && !records.isEmpty()) {
                    pause = 1;
                    addAll(records, stage == null ? records : applied(records));
                    continue;
                }
                if (records != null && transactions != null) {
                    endWithout();
                }
                if (System.nanoTime() - before < 1_000_000L) {
                    pause(pause);  // otherwise a task that does not wait itself would keep a core busy
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

    private List<SourceRecord> poll() throws InterruptedException {
        try {
            return task.poll();
        } catch (RetriableException again) {
            LOG.warn("The task failed to poll records and will poll again", again);
            pause(100);
            return null;
        }
    }

    /** Returns each record's outcome in the stage: another record, null or its failure. */
    private List<Object> applied(List<SourceRecord> records) throws InterruptedException {
        List<Object> outcomes = new ArrayList<>(records.size());
        for (SourceRecord record : records) {
            if (stopping) {
                break;
            }
            try {
                outcomes.add(stage.apply(record));
            } catch (Failed failed) {
                outcomes.add(failed);
            }
        }
        return outcomes;
    }

    private synchronized void pause(long ms) throws InterruptedException {
        if (!stopping) {
            wait(ms);
        }
    }

    private synchronized void addAll(List<SourceRecord> records, List<?> outcomes) throws InterruptedException {
        Iterator<SourceRecord> all = records.iterator();
        for (Iterator<?> made = outcomes.iterator(); made.hasNext(); ) {
            while ((ends != null || batch.isFull()) && !stopping) {
                notifyAll();
                wait();
            }
            if (stopping) {
                return;
            }
            SourceRecord record = all.next();
            batch.add(record, made.next());
            polled.add(record);
            if (transactions != null) {
                ends = transactions.after(record, !made.hasNext());
            }
        }
        notifyAll();
    }

    /** Ends a transaction after a poll without records, if the task asks for it. */
    private synchronized void endWithout() throws InterruptedException {
        String wanted = transactions.afterBatch();
        while (wanted != null && ends != null && !stopping) {
            wait();
        }
        if (wanted != null && !stopping) {
            ends = wanted;
            notifyAll();
        }
    }

    /**
     * Waits for records and writes them to `buffer`; returns their head as JSON, or null if there are none. Throws the
     * error that ended polling.
     */
    public synchronized String take(long waitMs) throws Throwable {
        if (hasNone() && failure == null && !stopping) {
            wait(waitMs);
        }
        if (hasNone()) {
            if (failure != null) {
                throw failure;
            }
            return null;
        }
        String head = columns.written(batch);
        takenEnds = ends;
        ends = null;
        batch = columns.begin(firstPolled + polled.size());
        notifyAll();
        return head;
    }

    private boolean hasNone() {
        return batch.count == 0 && ends == null;
    }

    /** Returns how the last batch of `take` ends a transaction: `commit`, `abort`, or null if it goes on. */
    public String ends() {
        return takenEnds;
    }

    /** Returns what `take` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }

    /** Returns true if the task wants to know the positions of its records. */
    public boolean wantsReceipts() {
        return wantsReceipts;
    }

    /** Returns true if a class of tasks has its own commitRecord. */
    private static boolean hasCommitRecord(Class<?> ofTask) {
        return Arrays.stream(ofTask.getMethods()).anyMatch(
            method -> method.getName().equals("commitRecord") && method.getDeclaringClass() != SourceTask.class);
    }

    /**
     * Tells the task of all records up to this number, which Kafka has; returns their partitions with the last offsets,
     * as JSON.
     *
     * `receipts` has the positions of the records that were written, in order: number, offset, timestamp, the topic's
     * index in `topics`, partition. The other records were filtered or left out. Null: the task wants none. The task is
     * told at once or, if `later`, by `tell`.
     */
    public String reached(long number, String[] topics, ByteBuffer receipts, boolean later) {
        long first;
        Map<Map<String, ?>, Map<String, ?>> last = new LinkedHashMap<>();
        List<SourceRecord> done = new ArrayList<>();
        synchronized (this) {
            first = firstPolled;
            int count = (int) Math.max(0, Math.min(number + 1 - first, polled.size()));
            polled.remove(count, last, done);
            firstPolled += count;
        }
        StringBuilder text = new StringBuilder("[");
        last.forEach((partition, offset) -> text.append(text.length() > 1 ? ",[" : "[").append(text(partition))
            .append(',').append(text(offset)).append(']'));
        if (receipts != null) {
            if (later) {
                ByteBuffer kept = ByteBuffer.allocate(receipts.limit()).put(receipts);
                kept.flip();
                synchronized (untold) {
                    untold.add(new Reached(done, first, number, topics, kept.order(ByteOrder.LITTLE_ENDIAN)));
                }
            } else {
                commit(done, first, topics, receipts.order(ByteOrder.LITTLE_ENDIAN));
            }
        }
        return text.append(']').toString();
    }

    /** Tells the task of reached records up to this number that it was not told of yet. */
    public void tell(long number) {
        while (true) {
            Reached one;
            synchronized (untold) {
                if (untold.isEmpty() || untold.peek().last() > number) {
                    return;
                }
                one = untold.remove();
            }
            commit(one.records(), one.first(), one.topics(), one.receipts());
        }
    }

    private void commit(List<SourceRecord> records, long first, String[] topics, ByteBuffer receipts) {
        Map<TopicPartition, TopicPartition> partitions = new HashMap<>();
        int at = 0;
        for (int i = 0; i < records.size(); i++) {
            RecordMetadata metadata = null;
            // A record that was sent again has several; the last counts.
            for (; at < receipts.limit() && receipts.getLong(at) <= first + i; at += RECEIPT) {
                TopicPartition made = new TopicPartition(topics[receipts.getInt(at + 24)], receipts.getInt(at + 28));
                TopicPartition known = partitions.computeIfAbsent(made, same -> same);
                metadata = new RecordMetadata(known, receipts.getLong(at + 8), 0, receipts.getLong(at + 16), -1, -1);
            }
            try {
                task.commitRecord(records.get(i), metadata);
            } catch (Exception failed) {
                LOG.error("The task failed to commit a record", failed);  // as in Connect, only logged
            }
        }
    }

    private String text(Map<String, ?> map) {
        byte[] bytes = map == null ? null : json.fromConnectData("", null, map);
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }
}

/** Records in Kafka, from the number `first` on, with their receipts. */
record Reached(List<SourceRecord> records, long first, long last, String[] topics, ByteBuffer receipts) {
}

/**
 * What is kept of polled records until Kafka has them: source partitions and offsets, and the records only if needed.
 * Equal consecutive partitions share one object, because a collector copies all that is kept.
 */
final class Polled {
    private static final Map<String, ?> NONE = new HashMap<>();  // a deque takes no null

    private final Queue<Map<String, ?>> partitions = new ArrayDeque<>();
    private final Queue<Map<String, ?>> offsets = new ArrayDeque<>();
    private final Queue<SourceRecord> records;
    private Map<String, ?> partition = NONE;

    Polled(boolean keepsRecords) {
        records = keepsRecords ? new ArrayDeque<>() : null;
    }

    int size() {
        return offsets.size();
    }

    void add(SourceRecord record) {
        Map<String, ?> own = record.sourcePartition() == null ? NONE : record.sourcePartition();
        if (own == NONE || partition == NONE || !own.equals(partition)) {
            partition = own;
        }
        partitions.add(partition);
        offsets.add(record.sourceOffset() == null ? NONE : record.sourceOffset());
        if (records != null) {
            records.add(record);
        }
    }

    /** Removes the first `count`: the last offset of each partition goes to `last`, kept records go to `done`. */
    void remove(int count, Map<Map<String, ?>, Map<String, ?>> last, List<SourceRecord> done) {
        Map<String, ?> of = NONE;
        Map<String, ?> offset = NONE;
        for (int i = 0; i < count; i++) {
            Map<String, ?> next = partitions.poll();
            if (i > 0 && next != of) {
                put(last, of, offset);
            }
            of = next;
            offset = offsets.poll();
            if (records != null) {
                done.add(records.poll());
            }
        }
        if (count > 0) {
            put(last, of, offset);
        }
    }

    private static void put(Map<Map<String, ?>, Map<String, ?>> last, Map<String, ?> partition,
                            Map<String, ?> offset) {
        last.put(partition == NONE ? null : partition, offset == NONE ? null : offset);
    }
}
