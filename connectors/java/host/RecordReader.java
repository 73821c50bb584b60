package headrace;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.Iterator;
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
 * Makes records of a batch's Arrow arrays, whose buffers `sink_batches.py` writes node by node in depth-first order.
 * Each column's values are made at once, then the records of the columns.
 */
public final class RecordReader {
    private final JsonConverter json = new JsonConverter();
    private final JsonConverter schemas = new JsonConverter();
    private final ObjectMapper mapper = new ObjectMapper();
    private final HeaderConverter headerConverter;
    private final Map keySchemas = new HashMap();
    private final Map valueSchemas = new HashMap();

    /** `ofHeaders`: null where the chain reads them. */
    public RecordReader(HeaderConverter ofHeaders) {
        headerConverter = ofHeaders;
        json.configure(Collections.singletonMap(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, "false"), false);
        schemas.configure(new HashMap(), false);
    }

    /** Learns the schema of a number, from the JSON that JsonConverter writes for it; "null" is that of schemaless. */
    public void learn(boolean ofKeys, int number, String description) throws Exception {
        JsonNode node = mapper.readTree(description);
        Schema schema = node == null || node.isNull() ? null : schemas.asConnectSchema(node);
        (ofKeys ? keySchemas : valueSchemas).put(Integer.valueOf(number), schema);
    }

    /**
     * The records of a batch; `keys` and `values`: the numbers of its schemas, in the order of their columns. They are a
     * source's where there is a `sourcePartition`, a JSON text; these have no offsets.
     */
    public List read(ByteBuffer data, int rows, int[] keys, int[] values, String sourcePartition) {
        Map origin = sourcePartition == null ? null : (Map) fromJson("", sourcePartition);
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
        Map keyColumns = columns(from, keySchemas, keys);
        Map valueColumns = columns(from, valueSchemas, values);
        List made = new ArrayList(rows);
        for (int i = 0; i < rows; i++) {
            String topic = (String) topics[i];
            Object key = value(topic, keySchemas, keyColumns, ofKey[i], i);
            Object value = value(topic, valueSchemas, valueColumns, ofValue[i], i);
            ConnectHeaders own = headers((String) cameTopics[i], (List) headers[i]);
            Schema keySchema = schema(keySchemas, ofKey[i]);
            Schema valueSchema = schema(valueSchemas, ofValue[i]);
            Integer partition = (Integer) partitions[i];
            Long timestamp = (Long) timestamps[i];
            made.add(origin != null
                ? (ConnectRecord) new SourceRecord(origin, Collections.EMPTY_MAP, topic, partition, keySchema, key,
                    valueSchema, value, timestamp, own)
                : sinkRecord(topic, partition, keySchema, key, valueSchema, value, timestamp, own,
                    (String) cameTopics[i], (Integer) camePartitions[i], ((Long) offsets[i]).longValue()));
        }
        return made;
    }

    private static ConnectRecord sinkRecord(String topic, Integer partition, Schema keySchema, Object key,
                                            Schema valueSchema, Object value, Long timestamp, ConnectHeaders headers,
                                            String cameTopic, Integer camePartition, long offset) {
        // Whether Kafka or the producer gave the timestamp is not carried.
        TimestampType type = timestamp == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        int number = partition == null ? camePartition.intValue() : partition.intValue();
        return new SinkRecord(topic, number, keySchema, key, valueSchema, value, offset, timestamp, type, headers,
            cameTopic, camePartition, offset);
    }

    private Map columns(ByteBuffer from, Map known, int[] numbers) {
        Map columns = new HashMap();
        for (int i = 0; i < numbers.length; i++) {
            Integer number = Integer.valueOf(numbers[i]);
            columns.put(number, Cells.of((Schema) known.get(number)).read(from));
        }
        return columns;
    }

    private static Schema schema(Map known, Object number) {
        return number == null ? null : (Schema) known.get(number);
    }

    private Object value(String topic, Map known, Map columns, Object number, int row) {
        if (number == null) {
            return null;
        }
        Object value = ((Object[]) columns.get(number))[row];
        if (known.get(number) != null || value == null) {
            return value;
        }
        return fromJson(topic, (String) value);
    }

    private Object fromJson(String topic, String text) {
        return json.toConnectData(topic, text.getBytes(StandardCharsets.UTF_8)).value();
    }

    private ConnectHeaders headers(String topic, List pairs) {
        if (headerConverter == null) {
            RawHeaders raw = new RawHeaders();
            for (int i = 0; pairs != null && i < pairs.size(); i++) {
                Object[] pair = (Object[]) pairs.get(i);
                raw.raw.add((String) pair[0], (byte[]) pair[1]);
            }
            return raw;
        }
        ConnectHeaders made = new ConnectHeaders();
        if (pairs != null) {
            for (Iterator all = pairs.iterator(); all.hasNext(); ) {
                Object[] pair = (Object[]) all.next();
                made.add((String) pair[0],
                    headerConverter.toConnectHeader(topic, (String) pair[0], (byte[]) pair[1]));
            }
        }
        return made;
    }
}

/** Reads an Arrow array as Connect's values. */
abstract class Cells {
    /** The values of the next node; its children follow it. */
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

    /** Reads the node's own buffers and its children; what is null may be anything. */
    abstract void fill(Object[] values, ByteBuffer from);

    static ByteBuffer buffer(ByteBuffer from) {
        int length = (int) from.getLong();
        ByteBuffer found = (ByteBuffer) from.slice().limit(length);
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
        switch (schema.type()) {
            case INT8:
                return new Numbers(Fixed.INT8);
            case INT16:
                return new Numbers(Fixed.INT16);
            case INT32:
                return new Numbers(name.equals("Date") ? Fixed.DATE : name.equals("Time") ? Fixed.TIME : Fixed.INT32);
            case INT64:
                return new Numbers(name.equals("Timestamp") ? Fixed.TIMESTAMP : Fixed.INT64);
            case FLOAT32:
                return new Numbers(Fixed.FLOAT32);
            case FLOAT64:
                return new Numbers(Fixed.FLOAT64);
            case BOOLEAN:
                return new Flags();
            case BYTES:
                return Columns.isDecimal(schema)
                    ? new Numbers(Integer.parseInt((String) schema.parameters().get("scale")))
                    : (Cells) new Octets(false);
            case STRING:
                return strings();
            case ARRAY:
                return new Lists(of(schema.valueSchema()));
            case MAP:
                return new Maps(of(schema.keySchema()), of(schema.valueSchema()));
            case STRUCT:
                return new Structs(schema);
            default:
                throw new IllegalArgumentException("no type " + schema.type());
        }
    }
}

/** Numbers, and what Arrow has as numbers; the kinds are those of `Fixed`, or the scale of decimals. */
final class Numbers extends Cells {
    private final int kind;

    Numbers(int ofKind) {
        kind = ofKind;
    }

    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = value(data, i);
        }
    }

    private Object value(ByteBuffer data, int i) {
        switch (kind) {
            case Fixed.INT8:
                return Byte.valueOf(data.get(i));
            case Fixed.INT16:
                return Short.valueOf(data.getShort(2 * i));
            case Fixed.INT32:
                return Integer.valueOf(data.getInt(4 * i));
            case Fixed.INT64:
                return Long.valueOf(data.getLong(8 * i));
            case Fixed.FLOAT32:
                return Float.valueOf(data.getFloat(4 * i));
            case Fixed.FLOAT64:
                return Double.valueOf(data.getDouble(8 * i));
            case Fixed.DATE:
                return new Date(data.getInt(4 * i) * 86400000L);
            case Fixed.TIME:
                return new Date(data.getInt(4 * i));
            case Fixed.TIMESTAMP:
                return new Date(Math.floorDiv(data.getLong(8 * i), 1000L));
            default:
                byte[] digits = new byte[16];
                for (int at = 0; at < 16; at++) {
                    digits[15 - at] = data.get(16 * i + at);
                }
                return new BigDecimal(new BigInteger(digits), kind);
        }
    }
}

final class Flags extends Cells {
    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = Boolean.valueOf((data.get(i >> 3) >> (i & 7) & 1) != 0);
        }
    }
}

/** Texts or bytes. */
final class Octets extends Cells {
    private final boolean isText;

    Octets(boolean ofTexts) {
        isText = ofTexts;
    }

    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        ByteBuffer data = buffer(from);
        for (int i = 0; i < values.length; i++) {
            int begin = ends.getInt(4 * i);
            byte[] bytes = new byte[ends.getInt(4 * i + 4) - begin];
            data.position(begin);
            data.get(bytes);
            values[i] = isText ? new String(bytes, StandardCharsets.UTF_8) : (Object) bytes;
        }
    }
}

final class Lists extends Cells {
    private final Cells items;

    Lists(Cells ofItems) {
        items = ofItems;
    }

    void fill(Object[] values, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        Object[] all = items.read(from);
        for (int i = 0; i < values.length; i++) {
            int begin = ends.getInt(4 * i);
            int end = ends.getInt(4 * i + 4);
            List list = new ArrayList(end - begin);
            for (int at = begin; at < end; at++) {
                list.add(all[at]);
            }
            values[i] = list;
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

    void fill(Object[] maps, ByteBuffer from) {
        ByteBuffer ends = buffer(from);
        from.getLong();  // the entries: as many as their keys, none of them null
        from.getLong();
        buffer(from);
        Object[] allKeys = keys.read(from);
        Object[] allValues = values.read(from);
        for (int i = 0; i < maps.length; i++) {
            Map map = new LinkedHashMap();
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

    void fill(Object[] values, ByteBuffer from) {
        for (int i = 0; i < values.length; i++) {
            values[i] = new Struct(schema);
        }
        List fields = schema.fields();
        for (int at = 0; at < fields.size(); at++) {
            Field field = (Field) fields.get(at);
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
final class Pairs extends Cells {
    void fill(Object[] values, ByteBuffer from) {
        Object[] keys = Cells.strings().read(from);
        Object[] data = new Octets(false).read(from);
        for (int i = 0; i < values.length; i++) {
            values[i] = new Object[] {keys[i], data[i]};
        }
    }
}
