package headrace;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Writes a task's records as columns: a batch is the buffers of Arrow arrays, node by node in depth-first order;
 * `batches.py` reads it. Schemas have numbers, and are sent with the first batch that uses them.
 */
final class RecordColumns {
    /** Limits of a full batch; polling waits until it is taken. 10,000 rows cost a text 5 % more. */
    static final int MOST_ROWS = 20000;
    static final int MOST_BYTES = 4 << 20;
    /** Maximum number of key or value schemas; once reached, numbers start again with the next batch. */
    static final int MOST_SCHEMAS = 1000;
    /**
     * From this size on a batch is one of many: the next reuses its arrays, so that a collector need not copy new ones.
     */
    static final int MANY_ROWS = 1000;

    private final JsonConverter json = new JsonConverter();
    private final HeaderConverter headerConverter;
    private Side keys = new Side("key");
    private Side values = new Side("value");
    private int era;
    private Rows spare;
    private ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 16).order(ByteOrder.LITTLE_ENDIAN);

    /** `ofHeaders`: makes the bytes of headers; null: the stage does. */
    RecordColumns(HeaderConverter ofHeaders) {
        headerConverter = ofHeaders;
        json.configure(Map.of("schemas.enable", "false"), false);
    }

    /** Returns an empty batch whose first row will have this number. */
    Rows begin(long first) {
        Rows rows = spare == null ? new Rows() : spare;
        spare = null;
        rows.first = first;
        return rows;
    }

    /** Writes a batch into `buffer`; returns its head as JSON. */
    String written(Rows rows) {
        String head = rows.head();
        int size = rows.write();
        if (keys.isCrowded() || values.isCrowded()) {
            keys = new Side("key");
            values = new Side("value");
            era++;
        } else if (rows.count >= MANY_ROWS && size <= 2 * MOST_BYTES) {
            rows.clear();
            spare = rows;
        }
        return head;
    }

    /** Returns what was last written; valid until the next write. */
    ByteBuffer buffer() {
        return buffer;
    }

    /** The rows of a batch. */
    final class Rows {
        int count;
        private final Column topics = new Bytes();
        private final Column partitions = new Fixed(Fixed.INT32);
        private final Column timestamps = new Fixed(Fixed.INT64);
        private final Bytes headerKeys = new Bytes();
        private final Bytes headerValues = new Bytes();
        private final Items headers = new Items(new Members(headerKeys, headerValues), false);
        private final Column keySchemas = new Fixed(Fixed.INT32);
        private final Column valueSchemas = new Fixed(Fixed.INT32);
        private final Column drops = new Bits();
        private final List<Column> failures = List.of(new Bytes(), new Bytes(), new Bytes());
        private final List<Column> keyColumns = new ArrayList<>();
        private final List<Column> valueColumns = new ArrayList<>();
        private long first;
        private int bytes;

        boolean isFull() {
            return count >= MOST_ROWS || bytes >= MOST_BYTES;
        }

        /** Adds a record's outcome: another record, null if it was filtered, or its failure. */
        void add(ConnectRecord<?> given, Object outcome) {
            Failed failed = outcome instanceof Failed thrown ? thrown : null;
            ConnectRecord<?> record = outcome instanceof ConnectRecord<?> made ? made : given;
            RuntimeException wrong = null;
            try {
                if (outcome == null) {
                    addNothing();
                } else {
                    addData(record);
                }
            } catch (RuntimeException thrown) {
                truncate();
                addNothing();
                wrong = thrown;
            }
            if (failed != null) {
                addFailure(failed.getMessage(), failed.stage, failed.plugin);
            } else if (wrong != null) {
                addFailure(wrong.getMessage() == null ? wrong.toString() : wrong.getMessage(), null, null);
            }
            drops.append(outcome == null);
            topics.append(record.topic());
            partitions.append(record.kafkaPartition());
            timestamps.append(record.timestamp());
            count++;
            if (count % 16 == 0) {
                bytes = sizeOf(keyColumns) + sizeOf(valueColumns) + headers.size();
            }
        }

        private void addData(ConnectRecord<?> record) {
            Integer key = keys.number(record.keySchema(), record.key());
            Integer value = values.number(record.valueSchema(), record.value());
            put(keys, keyColumns, keySchemas, key, record.topic(), record.key());
            put(values, valueColumns, valueSchemas, value, record.topic(), record.value());
            addHeaders(record);
        }

        private void addFailure(String message, String stage, String plugin) {
            String[] texts = {message, stage, plugin};
            for (int i = 0; i < texts.length; i++) {
                Column column = failures.get(i);
                column.pad(count);
                column.append(texts[i]);
            }
        }

        private void addNothing() {
            keySchemas.appendNull();
            valueSchemas.appendNull();
            headers.appendNull();
        }

        private int sizeOf(List<Column> columns) {
            int size = 0;
            for (Column column : columns) {
                size += column == null ? 0 : column.size();
            }
            return size;
        }

        private void put(Side side, List<Column> columns, Column numbers, Integer number, String topic, Object data) {
            numbers.append(number);
            if (number == null) {
                return;
            }
            while (columns.size() <= number) {
                columns.add(null);
            }
            Column column = columns.get(number);
            if (column == null) {
                column = side.column(number);
                columns.set(number, column);
            }
            column.pad(count);
            if (side.isSchemaless(number)) {
                column.append(json.fromConnectData(topic, null, data));
                return;
            }
            try {
                column.append(data);
            } catch (ClassCastException wrong) {
                throw new DataException("The " + side.name + ", of the class " + data.getClass().getName()
                    + ", does not fit the schema that it comes with, of the type " + side.type(number) + ": "
                    + wrong.getMessage() + ". Add a transform that makes it fit; a plugin may bring one.");
            }
        }

        private void addHeaders(ConnectRecord<?> record) {
            if (record.headers().isEmpty()) {
                headers.appendNull();
                return;
            }
            for (Header header : record.headers()) {
                headerKeys.append(header.key());
                headerValues.append(header.schema() == Encoding.RAW ? header.value() : headerConverter
                    .fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()));
                headers.items.valid();
            }
            headers.close();
        }

        /** Removes all rows, and keeps their arrays. */
        private void clear() {
            count = 0;
            bytes = 0;
            truncate();
        }

        /** Removes what was added beyond the counted rows. */
        private void truncate() {
            own().forEach(column -> column.truncate(count));
            truncate(failures);
            truncate(keyColumns);
            truncate(valueColumns);
        }

        private void truncate(List<Column> columns) {
            for (Column column : columns) {
                if (column != null) {
                    column.truncate(Math.min(count, column.length));
                }
            }
        }

        String head() {
            StringBuilder text = new StringBuilder("{\"rows\":").append(count).append(",\"first\":").append(first);
            text.append(",\"era\":").append(era).append(",\"keys\":");
            keys.tell(text);
            text.append(",\"values\":");
            values.tell(text);
            text.append(",\"key_columns\":");
            tell(text, keyColumns);
            text.append(",\"value_columns\":");
            tell(text, valueColumns);
            text.append(",\"has_failures\":").append(hasRows(failures.get(0)));
            return text.append('}').toString();
        }

        /** Appends the numbers of the schemas used by rows of the batch. */
        private void tell(StringBuilder text, List<Column> columns) {
            List<Integer> numbers = new ArrayList<>();
            for (int i = 0; i < columns.size(); i++) {
                if (hasRows(columns.get(i))) {
                    numbers.add(i);
                }
            }
            text.append(numbers);
        }

        /** Writes all columns into `buffer`; returns an upper bound of their size in bytes. */
        int write() {
            List<Column> all = new ArrayList<>(own());
            complete(failures, all);
            complete(keyColumns, all);
            complete(valueColumns, all);
            int size = 0;
            for (Column column : all) {
                size += column.size() + 256 * column.nodes();
            }
            if (buffer.capacity() < size || buffer.capacity() > 64 << 20 && size < 16 << 20) {
                buffer = ByteBuffer.allocateDirect(size + size / 4).order(ByteOrder.LITTLE_ENDIAN);
            }
            buffer.clear();
            all.forEach(column -> column.write(buffer));
            buffer.flip();
            return size;
        }

        /** Returns the columns of every batch, in the order of `ROUTING`. */
        private List<Column> own() {
            return List.of(topics, partitions, timestamps, headers, keySchemas, valueSchemas, drops);
        }

        /** Returns true if a column belongs to this batch, and not only to an earlier one that used its arrays. */
        private boolean hasRows(Column column) {
            return column != null && column.length > 0;
        }

        private void complete(List<Column> columns, List<Column> all) {
            for (Column column : columns) {
                if (hasRows(column)) {
                    column.pad(count);
                    all.add(column);
                }
            }
        }
    }

    /** Schemas of keys or of values, by number. */
    private final class Side {
        private final String name;
        private final Map<Schema, Integer> same = new IdentityHashMap<>();
        private final Map<Schema, Integer> equal = new HashMap<>();
        private final List<Schema> schemas = new ArrayList<>();
        private int told;
        private Integer schemaless;

        Side(String ofRecord) {
            name = ofRecord;
        }

        /** Returns the number of a record's schema; null for a null without schema. */
        Integer number(Schema schema, Object data) {
            if (schema == null) {
                if (data != null && schemaless == null) {
                    schemaless = schemas.size();
                    schemas.add(null);
                }
                return data == null ? null : schemaless;
            }
            Integer found = same.get(schema);
            if (found == null) {
                found = equal.get(schema);
                if (found == null) {
                    Columns.check(schema, 0);
                    found = schemas.size();
                    schemas.add(schema);
                    equal.put(schema, found);
                }
                if (same.size() >= 1000) {
                    same.clear();  // a source that makes a schema for each record
                }
                same.put(schema, found);
            }
            return found;
        }

        boolean isSchemaless(Integer number) {
            return number.equals(schemaless);
        }

        Schema.Type type(Integer number) {
            return schemas.get(number).type();
        }

        boolean isCrowded() {
            return schemas.size() >= MOST_SCHEMAS;
        }

        Column column(int number) {
            Schema schema = schemas.get(number);
            return schema == null ? new Bytes() : Columns.of(schema);
        }

        /** Appends the schemas that were not sent before. */
        void tell(StringBuilder text) {
            text.append('[');
            for (int i = told; i < schemas.size(); i++) {
                Schema schema = schemas.get(i);
                text.append(i > told ? "," : "").append(schema == null ? "null" : json.asJsonSchema(schema).toString());
            }
            told = schemas.size();
            text.append(']');
        }
    }
}
