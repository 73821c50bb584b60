package headrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
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
import org.apache.kafka.connect.storage.HeaderConverter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Polls one source task on a thread of its own, and keeps its records as columns until they are taken.
 *
 * Their places in the source stay here until the worker says how far Kafka has them (`reached`); the records
 * themselves, too, where the task has a commitRecord of its own.
 *
 * No private method is synchronized: Janino makes static ones of them, which lock the class.
 */
public final class SourceRecords implements Runnable {
    /** The bytes that say where a record stands in Kafka. */
    static final int RECEIPT = 32;

    private static final Logger LOG = LoggerFactory.getLogger("headrace.SourceRecords");

    private final SourceTask task;
    private final Chain chain;
    private final ClassLoader loader;
    private final Thread thread;
    private final JsonConverter json = new JsonConverter();
    private final RecordColumns columns;
    private final Transactions transactions;
    private final boolean wantsReceipts;
    private final Polled polled;
    private final List untold = new ArrayList();
    private long firstPolled;
    private RecordColumns.Rows batch;
    private String ends;
    private String takenEnds;
    private volatile boolean stopping;
    private Throwable failure;

    /**
     * `ofChain`: what its records pass before they cross; null: nothing. `ofHeaders`: makes the bytes of headers; null:
     * the chain does. `ofTransactions`: where the task says how its transactions end; null: it does not.
     */
    public SourceRecords(SourceTask polledTask, Chain ofChain, HeaderConverter ofHeaders, Transactions ofTransactions,
            ClassLoader pluginLoader, String name) {
        task = polledTask;
        wantsReceipts = hasCommitRecord(task.getClass());
        polled = new Polled(wantsReceipts);
        chain = ofChain;
        transactions = ofTransactions;
        loader = pluginLoader;
        json.configure(Collections.singletonMap("schemas.enable", "false"), false);
        columns = new RecordColumns(ofHeaders);
        batch = columns.begin(0);
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
                    continue;
                }
                if (records != null && transactions != null) {
                    endWithout();
                }
                if (System.nanoTime() - before < 1000000L) {
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
            while ((ends != null || batch.isFull()) && !stopping) {
                notifyAll();
                wait();
            }
            if (stopping) {
                return;
            }
            SourceRecord record = (SourceRecord) all.next();
            batch.add(record, made.next());
            polled.add(record);
            if (transactions != null) {
                ends = transactions.after(record, !made.hasNext());
            }
        }
        notifyAll();
    }

    /** Ends a transaction after a poll without records, if the task wants it. */
    synchronized void endWithout() throws InterruptedException {
        String wanted = transactions.afterBatch();
        while (wanted != null && ends != null && !stopping) {
            wait();
        }
        if (wanted != null && !stopping) {
            ends = wanted;
            notifyAll();
        }
    }

    /** Waits for records; what `buffer` holds then, as JSON, or null where there are none. Throws what ended polling. */
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

    boolean hasNone() {
        return batch.count == 0 && ends == null;
    }

    /** How what `take` gave last ends a transaction: `commit`, `abort`, or null where it goes on. */
    public String ends() {
        return takenEnds;
    }

    /** What `take` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }

    /** Whether the task wants to know where its records stand. */
    public boolean wantsReceipts() {
        return wantsReceipts;
    }

    /** Whether a class of tasks has a commitRecord of its own. */
    private static boolean hasCommitRecord(Class ofTask) {
        java.lang.reflect.Method[] methods = ofTask.getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals("commitRecord") && methods[i].getDeclaringClass() != SourceTask.class) {
                return true;
            }
        }
        return false;
    }

    /**
     * Tells the task of all records up to this number, which Kafka has; their partitions with the last offset, as JSON.
     *
     * `receipts` says of those that were written where they stand, in their order: number, offset, timestamp, the
     * topic's number in `topics`, partition. The others were filtered or left out. Null: the task wants none. The task
     * is told of them at once, or, `later`, by `tell`.
     */
    public String reached(long number, String[] topics, ByteBuffer receipts, boolean later) {
        long first;
        Map last = new LinkedHashMap();
        List done = new ArrayList();
        synchronized (this) {
            first = firstPolled;
            int count = (int) Math.max(0, Math.min(number + 1 - first, polled.size()));
            polled.remove(count, last, done);
            firstPolled += count;
        }
        StringBuilder text = new StringBuilder("[");
        for (Iterator all = last.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            text.append(text.length() > 1 ? ",[" : "[").append(text(one.getKey())).append(',');
            text.append(text(one.getValue())).append(']');
        }
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

    /** Tells the task of the records up to this number that were reached and that it was not told of yet. */
    public void tell(long number) {
        while (true) {
            Reached one;
            synchronized (untold) {
                if (untold.isEmpty() || ((Reached) untold.get(0)).last > number) {
                    return;
                }
                one = (Reached) untold.remove(0);
            }
            commit(one.records, one.first, one.topics, one.receipts);
        }
    }

    private void commit(List records, long first, String[] topics, ByteBuffer receipts) {
        Map partitions = new HashMap();
        int at = 0;
        for (int i = 0; i < records.size(); i++) {
            RecordMetadata metadata = null;
            // One that was sent again has several, of which the last counts.
            for (; at < receipts.limit() && receipts.getLong(at) <= first + i; at += RECEIPT) {
                TopicPartition made = new TopicPartition(topics[receipts.getInt(at + 24)], receipts.getInt(at + 28));
                TopicPartition known = (TopicPartition) partitions.get(made);
                if (known == null) {
                    partitions.put(made, made);
                    known = made;
                }
                metadata = new RecordMetadata(known, receipts.getLong(at + 8), 0, receipts.getLong(at + 16), -1, -1);
            }
            try {
                task.commitRecord((SourceRecord) records.get(i), metadata);
            } catch (Exception failed) {
                LOG.error("The task failed to commit a record", failed);  // as in Connect that is all
            }
        }
    }

    private String text(Object map) {
        byte[] bytes = map == null ? null : json.fromConnectData("", null, map);
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }
}

/** Records that Kafka has, from this number on, and where they stand. */
final class Reached {
    final List records;
    final long first;
    final long last;
    final String[] topics;
    final ByteBuffer receipts;

    Reached(List ofRecords, long ofFirst, long ofLast, String[] ofTopics, ByteBuffer ofReceipts) {
        records = ofRecords;
        first = ofFirst;
        last = ofLast;
        topics = ofTopics;
        receipts = ofReceipts;
    }
}

/**
 * What is kept of polled records until Kafka has them: their places in the source, and the whole only for who asks for
 * it. Equal partitions that follow each other are one object: a collector copies all that is kept.
 */
final class Polled {
    private static final Map NONE = new HashMap();  // a deque takes no null

    private final ArrayDeque partitions = new ArrayDeque();
    private final ArrayDeque offsets = new ArrayDeque();
    private final ArrayDeque records;
    private Map partition = NONE;

    Polled(boolean keepsRecords) {
        records = keepsRecords ? new ArrayDeque() : null;
    }

    int size() {
        return offsets.size();
    }

    void add(SourceRecord record) {
        Map own = record.sourcePartition() == null ? NONE : record.sourcePartition();
        if (own == NONE || partition == NONE || !own.equals(partition)) {
            partition = own;
        }
        partitions.add(partition);
        offsets.add(record.sourceOffset() == null ? NONE : record.sourceOffset());
        if (records != null) {
            records.add(record);
        }
    }

    /** Forgets the first `count`: the last offset of each partition goes to `last`, kept records go to `done`. */
    void remove(int count, Map last, List done) {
        Map of = NONE;
        Map offset = NONE;
        for (int i = 0; i < count; i++) {
            Map next = (Map) partitions.poll();
            if (i > 0 && next != of) {
                put(last, of, offset);
            }
            of = next;
            offset = (Map) offsets.poll();
            if (records != null) {
                done.add(records.poll());
            }
        }
        if (count > 0) {
            put(last, of, offset);
        }
    }

    private static void put(Map last, Map partition, Map offset) {
        last.put(partition == NONE ? null : partition, offset == NONE ? null : offset);
    }
}
