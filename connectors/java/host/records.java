package headrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Polls one source task on a thread of its own, and keeps its records as columns until they are taken.
 *
 * A batch is written as the buffers that Arrow arrays have, node by node in depth-first order; `batches.py` is the
 * reader. The records themselves stay here until the worker says how far Kafka has them (`reached`).
 *
 * No private method is synchronized: Janino makes static ones of them, which lock the class.
 */
public final class SourceRecords implements Runnable {
    /** A batch that has so much is full: the next poll waits until it is taken. */
    static final int MOST_ROWS = 20000;
    static final int MOST_BYTES = 4 << 20;
    /** So many schemas of keys or values are numbered; then numbers begin anew with the next batch. */
    static final int MOST_SCHEMAS = 64;
    /** The bytes that say where a record stands in Kafka. */
    static final int RECEIPT = 32;

    private static final Logger LOG = LoggerFactory.getLogger("headrace.SourceRecords");

    private final SourceTask task;
    private final Chain chain;
    private final ClassLoader loader;
    private final Thread thread;
    private final JsonConverter json = new JsonConverter();
    private final HeaderConverter headerConverter;
    private final ArrayDeque polled = new ArrayDeque();
    private long firstPolled;
    private Batch batch;
    private Side keys = new Side();
    private Side values = new Side();
    private int era;
    private volatile boolean stopping;
    private Throwable failure;
    private ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 16).order(ByteOrder.LITTLE_ENDIAN);

    /**
     * `ofChain`: what its records pass before they cross; null: nothing. `ofHeaders`: makes the bytes of headers; null:
     * the chain does.
     */
    public SourceRecords(SourceTask polledTask, Chain ofChain, HeaderConverter ofHeaders, ClassLoader pluginLoader,
            String name) {
        task = polledTask;
        chain = ofChain;
        headerConverter = ofHeaders;
        loader = pluginLoader;
        json.configure(Collections.singletonMap("schemas.enable", "false"), false);
        batch = new Batch();
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
        if (batch.rows == 0 && failure == null && !stopping) {
            wait(waitMs);
        }
        if (batch.rows == 0) {
            if (failure != null) {
                throw failure;
            }
            return null;
        }
        Batch taken = batch;
        String head = taken.head();
        taken.write();
        if (keys.isCrowded() || values.isCrowded()) {
            keys = new Side();
            values = new Side();
            era++;
        }
        batch = new Batch();
        notifyAll();
        return head;
    }

    /** What `take` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return buffer;
    }

    /** Whether the task has a commitRecord of its own, so that it wants to know where its records stand. */
    public boolean wantsReceipts() {
        java.lang.reflect.Method[] methods = task.getClass().getMethods();
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
     * topic's number in `topics`, partition. The others were filtered or left out. Null: the task wants none.
     */
    public String reached(long number, String[] topics, ByteBuffer receipts) {
        long first;
        Map last = new LinkedHashMap();
        List done = new ArrayList();
        synchronized (this) {
            first = firstPolled;
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
        if (receipts != null) {
            commit(done, first, topics, receipts.order(ByteOrder.LITTLE_ENDIAN));
        }
        return text.append(']').toString();
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

    /** The rows that wait to be taken. */
    private final class Batch {
        int rows;
        private final Column topics = new Bytes();
        private final Column partitions = new Fixed(Fixed.INT32);
        private final Column timestamps = new Fixed(Fixed.INT64);
        private final Bytes headerKeys = new Bytes();
        private final Bytes headerValues = new Bytes();
        private final Items headers = new Items(new Members(new Column[] {headerKeys, headerValues}), false);
        private final Column keySchemas = new Fixed(Fixed.INT32);
        private final Column valueSchemas = new Fixed(Fixed.INT32);
        private final Column errors = new Bytes();
        private final Column stages = new Bytes();
        private final Column plugins = new Bytes();
        private final Column drops = new Bits();
        private final List keyColumns = new ArrayList();
        private final List valueColumns = new ArrayList();
        private final long first;
        private int bytes;

        Batch() {
            first = firstPolled + polled.size();
        }

        boolean isFull() {
            return rows >= MOST_ROWS || bytes >= MOST_BYTES;
        }

        /** Adds what became of a record: another one, null where it was filtered, or what failed. */
        void add(SourceRecord polled, Object outcome) {
            Failed failed = outcome instanceof Failed ? (Failed) outcome : null;
            SourceRecord record = outcome instanceof SourceRecord ? (SourceRecord) outcome : polled;
            try {
                if (outcome == null) {
                    addNothing();
                } else {
                    addData(record);
                }
                errors.append(failed == null ? null : failed.getMessage());
            } catch (RuntimeException wrong) {
                truncate();
                addNothing();
                String message = wrong.getMessage() == null ? wrong.toString() : wrong.getMessage();
                errors.append(failed == null ? message : failed.getMessage());
            }
            stages.append(failed == null ? null : failed.stage);
            plugins.append(failed == null ? null : failed.plugin);
            drops.append(Boolean.valueOf(outcome == null));
            topics.append(record.topic());
            partitions.append(record.kafkaPartition());
            timestamps.append(record.timestamp());
            rows++;
            if (rows % 16 == 0) {
                bytes = sizeOf(keyColumns) + sizeOf(valueColumns) + headers.size();
            }
        }

        private void addData(SourceRecord record) {
            Integer key = keys.number(record.keySchema(), record.key());
            Integer value = values.number(record.valueSchema(), record.value());
            put(keys, keyColumns, keySchemas, key, record.topic(), record.key());
            put(values, valueColumns, valueSchemas, value, record.topic(), record.value());
            addHeaders(record);
        }

        private void addNothing() {
            keySchemas.appendNull();
            valueSchemas.appendNull();
            headers.appendNull();
        }

        private int sizeOf(List columns) {
            int size = 0;
            for (int i = 0; i < columns.size(); i++) {
                size += ((Column) columns.get(i)).size();
            }
            return size;
        }

        private void put(Side side, List columns, Column numbers, Integer number, String topic, Object data) {
            numbers.append(number);
            if (number == null) {
                return;
            }
            while (columns.size() <= number.intValue()) {
                columns.add(side.column(columns.size()));
            }
            Column column = (Column) columns.get(number.intValue());
            column.pad(rows);
            column.append(side.isSchemaless(number) ? json.fromConnectData(topic, null, data) : data);
        }

        private void addHeaders(SourceRecord record) {
            if (record.headers().isEmpty()) {
                headers.appendNull();
                return;
            }
            for (Iterator all = record.headers().iterator(); all.hasNext(); ) {
                Header header = (Header) all.next();
                headerKeys.append(header.key());
                headerValues.append(header.schema() == Encoding.RAW ? header.value() : headerConverter
                    .fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()));
                headers.items.valid();
            }
            headers.close();
        }

        private void truncate() {
            keySchemas.truncate(rows);
            valueSchemas.truncate(rows);
            headers.truncate(rows);
            errors.truncate(rows);
            truncate(keyColumns);
            truncate(valueColumns);
        }

        private void truncate(List columns) {
            for (Iterator all = columns.iterator(); all.hasNext(); ) {
                Column column = (Column) all.next();
                column.truncate(Math.min(rows, column.length));
            }
        }

        String head() {
            StringBuilder text = new StringBuilder("{\"rows\":").append(rows).append(",\"first\":").append(first);
            text.append(",\"era\":").append(era).append(",\"keys\":");
            keys.tell(text);
            text.append(",\"values\":");
            values.tell(text);
            return text.append('}').toString();
        }

        void write() {
            List all = new ArrayList();
            Column[] own = {topics, partitions, timestamps, headers, keySchemas, valueSchemas, errors,
                stages, plugins, drops};
            for (int i = 0; i < own.length; i++) {
                all.add(own[i]);
            }
            complete(keys, keyColumns, all);
            complete(values, valueColumns, all);
            int size = 0;
            for (int i = 0; i < all.size(); i++) {
                size += ((Column) all.get(i)).size() + 256 * ((Column) all.get(i)).nodes();
            }
            if (buffer.capacity() < size || buffer.capacity() > 64 << 20 && size < 16 << 20) {
                buffer = ByteBuffer.allocateDirect(size + size / 4).order(ByteOrder.LITTLE_ENDIAN);
            }
            buffer.clear();
            for (int i = 0; i < all.size(); i++) {
                ((Column) all.get(i)).write(buffer);
            }
            buffer.flip();
        }

        private void complete(Side side, List columns, List all) {
            while (columns.size() < side.count()) {
                columns.add(side.column(columns.size()));
            }
            for (int i = 0; i < columns.size(); i++) {
                ((Column) columns.get(i)).pad(rows);
            }
            all.addAll(columns);
        }
    }

    /** The schemas of keys or of values, by their numbers. */
    private final class Side {
        private final IdentityHashMap same = new IdentityHashMap();
        private final HashMap equal = new HashMap();
        private final List schemas = new ArrayList();
        private int told;
        private Integer schemaless;

        /** The number of a record's schema; null for a null without schema. */
        Integer number(Schema schema, Object data) {
            if (schema == null) {
                if (data != null && schemaless == null) {
                    schemaless = Integer.valueOf(schemas.size());
                    schemas.add(null);
                }
                return data == null ? null : schemaless;
            }
            Object found = same.get(schema);
            if (found == null) {
                found = equal.get(schema);
                if (found == null) {
                    Columns.check(schema, 0);
                    found = Integer.valueOf(schemas.size());
                    schemas.add(schema);
                    equal.put(schema, found);
                }
                if (same.size() >= 1000) {
                    same.clear();  // a source that makes a schema for each record
                }
                same.put(schema, found);
            }
            return (Integer) found;
        }

        boolean isSchemaless(Integer number) {
            return number.equals(schemaless);
        }

        boolean isCrowded() {
            return schemas.size() >= MOST_SCHEMAS;
        }

        int count() {
            return schemas.size();
        }

        Column column(int number) {
            Schema schema = (Schema) schemas.get(number);
            return schema == null ? new Bytes() : Columns.of(schema);
        }

        /** The schemas that were not told before. */
        void tell(StringBuilder text) {
            text.append('[');
            for (int i = told; i < schemas.size(); i++) {
                Schema schema = (Schema) schemas.get(i);
                text.append(i > told ? "," : "").append(schema == null ? "null" : json.asJsonSchema(schema).toString());
            }
            told = schemas.size();
            text.append(']');
        }
    }
}
