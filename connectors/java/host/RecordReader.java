package headrace;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Makes records from a batch's Arrow arrays, whose buffers `sink_batches.py` writes node by node in depth-first order.
 * First all values of each column are made, then the records.
 */
public final class RecordReader {
    private final JsonConverter json = new JsonConverter();
    private final JsonConverter schemas = new JsonConverter();
    private final ObjectMapper mapper = new ObjectMapper();
    private final HeaderConverter headerConverter;
    private final Map<Integer, Schema> keySchemas = new HashMap<>();
    private final Map<Integer, Schema> valueSchemas = new HashMap<>();

    /** `ofHeaders`: null if the stage reads headers. */
    public RecordReader(HeaderConverter ofHeaders) {
        headerConverter = ofHeaders;
        json.configure(Map.of(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, "false"), false);
        schemas.configure(Map.of(), false);
    }

    /** Sets the schema of a number, from JsonConverter's JSON; "null" means schemaless. */
    public void learn(boolean ofKeys, int number, String description) throws Exception {
        JsonNode node = mapper.readTree(description);
        Schema schema = node == null || node.isNull() ? null : schemas.asConnectSchema(node);
        (ofKeys ? keySchemas : valueSchemas).put(number, schema);
    }

    /**
     * Returns the records of a batch; `keys` and `values`: its schema numbers, in the order of their columns. With a
     * `sourcePartition`, a JSON text, they are a source's, and have no offsets.
     */
    public List<ConnectRecord<?>> read(ByteBuffer data, int rows, int[] keys, int[] values, String sourcePartition) {
        @SuppressWarnings("unchecked")
        Map<String, ?> origin = sourcePartition == null ? null : (Map<String, ?>) fromJson("", sourcePartition);
        ByteBuffer from = data.order(ByteOrder.LITTLE_ENDIAN);
        Object[] topics = Cells.strings().read(from);
        Object[] partitions = new Numbers(Fixed.INT32).read(from);
        Object[] offsets = new Numbers(Fixed.INT64).read(from);
        Object[] timestamps = new Numbers(Fixed.INT64).read(from);
        Object[] headers = new Lists(new Pairs()).read(from);
        Object[] cameTopics = Cells.strings().read(from);
        Object[] camePartitions = new Numbers(Fixed.INT32).read(from);
        Object[] ofKey = new Numbers(Fixed.INT32).read(from);
        Object[] ofValue = new Numbers(Fixed.INT32).read(from);
        Map<Integer, Object[]> keyColumns = columns(from, keySchemas, keys);
        Map<Integer, Object[]> valueColumns = columns(from, valueSchemas, values);
        List<ConnectRecord<?>> made = new ArrayList<>(rows);
        for (int i = 0; i < rows; i++) {
            String topic = (String) topics[i];
            Object key = value(topic, keySchemas, keyColumns, ofKey[i], i);
            Object value = value(topic, valueSchemas, valueColumns, ofValue[i], i);
            ConnectHeaders own = headers((String) cameTopics[i], (List<?>) headers[i]);
            Schema keySchema = schema(keySchemas, ofKey[i]);
            Schema valueSchema = schema(valueSchemas, ofValue[i]);
            Integer partition = (Integer) partitions[i];
            Long timestamp = (Long) timestamps[i];
            made.add(origin != null
                ? new SourceRecord(origin, Collections.emptyMap(), topic, partition, keySchema, key,
                    valueSchema, value, timestamp, own)
                : sinkRecord(topic, partition, keySchema, key, valueSchema, value, timestamp, own,
                    (String) cameTopics[i], (Integer) camePartitions[i], (Long) offsets[i]));
        }
        return made;
    }

    private static SinkRecord sinkRecord(String topic, Integer partition, Schema keySchema, Object key,
                                         Schema valueSchema, Object value, Long timestamp, ConnectHeaders headers,
                                         String cameTopic, Integer camePartition, long offset) {
        // It is not known if Kafka or the producer set the timestamp.
        TimestampType type = timestamp == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        int number = partition == null ? camePartition : partition;
        return new SinkRecord(topic, number, keySchema, key, valueSchema, value, offset, timestamp, type, headers,
            cameTopic, camePartition, offset);
    }

    private Map<Integer, Object[]> columns(ByteBuffer from, Map<Integer, Schema> known, int[] numbers) {
        Map<Integer, Object[]> columns = new HashMap<>();
        for (int number : numbers) {
            columns.put(number, Cells.of(known.get(number)).read(from));
        }
        return columns;
    }

    private static Schema schema(Map<Integer, Schema> known, Object number) {
        return number == null ? null : known.get(number);
    }

    private Object value(String topic, Map<Integer, Schema> known, Map<Integer, Object[]> columns, Object number,
                         int row) {
        if (number == null) {
            return null;
        }
        Object value = columns.get(number)[row];
        if (known.get(number) != null || value == null) {
            return value;
        }
        return fromJson(topic, (String) value);
    }

    private Object fromJson(String topic, String text) {
        return json.toConnectData(topic, text.getBytes(StandardCharsets.UTF_8)).value();
    }

    private ConnectHeaders headers(String topic, List<?> pairs) {
        List<?> given = pairs == null ? List.of() : pairs;
        if (headerConverter == null) {
            RawHeaders raw = new RawHeaders();
            for (Object one : given) {
                Pair pair = (Pair) one;
                raw.raw.add(pair.key(), pair.bytes());
            }
            return raw;
        }
        ConnectHeaders made = new ConnectHeaders();
        for (Object one : given) {
            Pair pair = (Pair) one;
            made.add(pair.key(), headerConverter.toConnectHeader(topic, pair.key(), pair.bytes()));
        }
        return made;
    }
}

/** Reads an Arrow array as Connect values. */
abstract class Cells {
    /** Returns the values of the next node; its children follow it. */
    final Object[] read(ByteBuffer from) {
        int length = (int) from.getLong();
        boolean hasNulls = from.getLong() > 0;
        ByteBuffer validity = buffer(from);
        Object[] values = new Object[length];
        fill(values, from);
        for (int i = 0; hasNulls && i < length; i++) {
            if ((validity.get(i >> 3) >> (i & 7) & 1) == 0) {
                values[i] = null;
            }
        }
        return values;
    }

    /** Reads the node's own buffers and its children; nulls may get any value. */
    abstract void fill(Object[] values, ByteBuffer from);

    static ByteBuffer buffer(ByteBuffer from) {
        int length = (int) from.getLong();
        ByteBuffer found = from.slice().limit(length);
        from.position((from.position() + length + 7) / 8 * 8);
        return found.order(ByteOrder.LITTLE_ENDIAN);
    }

    static Cells strings() {
        return new Octets(true);
    }

    static Cells of(Schema schema) {
        if (schema == null) {
            return strings();
        }
        String name = schema.name() != null && schema.name().startsWith(Columns.LOGICAL)
            ? schema.name().substring(Columns.LOGICAL.length()) : "";
        return switch (schema.type()) {
            case INT8 -> new Numbers(Fixed.INT8);
            case INT16 -> new Numbers(Fixed.INT16);
            case INT32 ->
                new Numbers(name.equals("Date") ? Fixed.DATE : name.equals("Time") ? Fixed.TIME : Fixed.INT32);
            case INT64 -> new Numbers(name.equals("Timestamp") ? Fixed.TIMESTAMP : Fixed.INT64);
            case FLOAT32 -> new Numbers(Fixed.FLOAT32);
            case FLOAT64 -> new Numbers(Fixed.FLOAT64);
            case BOOLEAN -> new Flags();
            case BYTES -> Columns.isDecimal(schema)
                ? new Numbers(Integer.parseInt(schema.parameters().get("scale"))) : new Octets(false);
            case STRING -> strings();
            case ARRAY -> new Lists(of(schema.valueSchema()));
            case MAP -> new Maps(of(schema.keySchema()), of(schema.valueSchema()));
            case STRUCT -> new Structs(schema);
        };
    }
}

/** Numbers, and values that Arrow holds as numbers; kinds are those of `Fixed`, or the scale of decimals. */
final class Numbers extends Cells {
    private final int kind;

    Numbers(int ofKind) {
        kind = ofKind;
    }

    @Override
    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = value(data, i);
        }
    }

    private Object value(ByteBuffer data, int i) {
        switch (kind) {
            case Fixed.INT8: return data.get(i);
            case Fixed.INT16: return data.getShort(2 * i);
            case Fixed.INT32: return data.getInt(4 * i);
            case Fixed.INT64: return data.getLong(8 * i);
            case Fixed.FLOAT32: return data.getFloat(4 * i);
            case Fixed.FLOAT64: return data.getDouble(8 * i);
            case Fixed.DATE: return new Date(data.getInt(4 * i) * 86_400_000L);
            case Fixed.TIME: return new Date(data.getInt(4 * i));
            case Fixed.TIMESTAMP: return new Date(Math.floorDiv(data.getLong(8 * i), 1000L));
            default: return decimal(data, i);
        }
    }

    private BigDecimal decimal(ByteBuffer data, int i) {
        byte[] digits = new byte[16];
        for (int at = 0; at < 16; at++) {
            digits[15 - at] = data.get(16 * i + at);
        }
        return new BigDecimal(new BigInteger(digits), kind);
    }
}

final class Flags extends Cells {
    @Override
    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = (data.get(i >> 3) >> (i & 7) & 1) != 0;
        }
    }
}

/** Texts or bytes. */
final class Octets extends Cells {
    private final boolean isText;

    Octets(boolean ofTexts) {
        isText = ofTexts;
    }

    @Override
    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            int begin = ends.getInt(4 * i);
            byte[] bytes = new byte[ends.getInt(4 * i + 4) - begin];
            data.position(begin);
            data.get(bytes);
            values[i] = isText ? new String(bytes, StandardCharsets.UTF_8) : bytes;
        }
    }
}

final class Lists extends Cells {
    private final Cells items;

    Lists(Cells ofItems) {
        items = ofItems;
    }

    @Override
    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        Object[] all = items.read(from);
        for (int i = 0; i < values.length; i++) {
            Object[] own = Arrays.copyOfRange(all, ends.getInt(4 * i), ends.getInt(4 * i + 4));
            values[i] = new ArrayList<>(Arrays.asList(own));
        }
    }
}

final class Maps extends Cells {
    private final Cells keys;
    private final Cells values;

    Maps(Cells ofKeys, Cells ofValues) {
        keys = ofKeys;
        values = ofValues;
    }

    @Override
    void fill(Object[] maps, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        from.getLong();  // the entries: as many as their keys, none of them null
        from.getLong();
        buffer(from);
        Object[] allKeys = keys.read(from);
        Object[] allValues = values.read(from);
        for (int i = 0; i < maps.length; i++) {
            Map<Object, Object> map = new LinkedHashMap<>();
            for (int at = ends.getInt(4 * i); at < ends.getInt(4 * i + 4); at++) {
                map.put(allKeys[at], allValues[at]);
            }
            maps[i] = map;
        }
    }
}

final class Structs extends Cells {
    private final Schema schema;

    Structs(Schema ofStructs) {
        schema = ofStructs;
    }

    @Override
    void fill(Object[] values, ByteBuffer from) {
        for (int i = 0; i < values.length; i++) {
            values[i] = new Struct(schema);
        }
        for (Field field : schema.fields()) {
            Object[] members = Cells.of(field.schema()).read(from);
            for (int i = 0; i < values.length; i++) {
                if (members[i] != null) {
                    ((Struct) values[i]).put(field, members[i]);
                }
            }
        }
    }
}

/** A header's key and bytes. */
record Pair(String key, byte[] bytes) {
}

final class Pairs extends Cells {
    @Override
    void fill(Object[] values, ByteBuffer from) {
        Object[] keys = Cells.strings().read(from);
        Object[] data = new Octets(false).read(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = new Pair((String) keys[i], (byte[]) data[i]);
        }
    }
}
