package headrace;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Makes the records of a sink task of a batch's Arrow arrays, whose buffers `sink_batches.py` writes node by node in
 * depth-first order. Each column's values are made at once, then the records of the columns.
 */
public final class SinkRecords {
    private final JsonConverter json = new JsonConverter();
    private final JsonConverter schemas = new JsonConverter();
    private final ObjectMapper mapper = new ObjectMapper();
    private final HeaderConverter headerConverter;
    private final Chain chain;
    private final boolean tolerates;
    private List failures = new ArrayList();
    private Map filtered = new HashMap();
    private final Map keySchemas = new HashMap();
    private final Map valueSchemas = new HashMap();

    /** `ofHeaders`: null where the chain reads them; `ofChain`: what records pass before `put`; null: nothing. */
    public SinkRecords(HeaderConverter ofHeaders, Chain ofChain, boolean doesTolerate) {
        headerConverter = ofHeaders;
        chain = ofChain;
        tolerates = doesTolerate;
        Map settings = new HashMap();
        settings.put(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, "false");
        json.configure(settings, false);
        schemas.configure(new HashMap(), false);
    }

    /** Learns the schema of a number, from the JSON that JsonConverter writes for it; "null" is that of schemaless. */
    public void learn(boolean ofKeys, int number, String description) throws Exception {
        JsonNode node = mapper.readTree(description);
        Schema schema = node == null || node.isNull() ? null : schemas.asConnectSchema(node);
        (ofKeys ? keySchemas : valueSchemas).put(Integer.valueOf(number), schema);
    }

    /** The records of a batch; `keys` and `values`: the numbers of its schemas, in the order of their columns. */
    public List read(ByteBuffer data, int rows, int[] keys, int[] values) {
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
            // Whether Kafka or the producer gave the timestamp is not carried.
            TimestampType type = timestamps[i] == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
            Integer came = (Integer) camePartitions[i];
            Integer partition = partitions[i] == null ? came : (Integer) partitions[i];
            long offset = ((Long) offsets[i]).longValue();
            made.add(new SinkRecord(topic, partition.intValue(), schema(keySchemas, ofKey[i]), key,
                schema(valueSchemas, ofValue[i]), value, offset, (Long) timestamps[i], type, own,
                (String) cameTopics[i], came, offset));
        }
        return made;
    }

    /**
     * The records as the chain leaves them, without those that it filters or that fail in it. Where failures are not
     * tolerated, nothing after one passes of its partition: these records come again.
     */
    public List passed(List records) throws InterruptedException {
        failures = new ArrayList();
        filtered = new HashMap();
        if (chain == null) {
            return records;
        }
        List passed = new ArrayList(records.size());
        Set stopped = new HashSet();
        for (Iterator all = records.iterator(); all.hasNext(); ) {
            SinkRecord record = (SinkRecord) all.next();
            TopicPartition origin =
                new TopicPartition(record.originalTopic(), record.originalKafkaPartition().intValue());
            if (stopped.contains(origin)) {
                continue;
            }
            try {
                Object made = chain.apply(record);
                if (made != null) {
                    passed.add(made);
                } else {
                    int[] count = (int[]) filtered.get(origin);
                    if (count == null) {
                        filtered.put(origin, new int[] {1});
                    } else {
                        count[0]++;
                    }
                }
            } catch (Failed failed) {
                failures.add(new Object[] {record, failed});
                if (!tolerates) {
                    stopped.add(origin);
                }
            }
        }
        return passed;
    }

    /** How many records of each partition were filtered in the last call of `passed`, as JSON. */
    public String filtered() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        for (Iterator each = filtered.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry one = (Map.Entry) each.next();
            TopicPartition origin = (TopicPartition) one.getKey();
            all.addArray().add(origin.topic()).add(origin.partition()).add(((int[]) one.getValue())[0]);
        }
        return mapper.writeValueAsString(all);
    }

    /** The records that failed in the last call of `passed`, as JSON. */
    public String failures() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        for (Iterator each = failures.iterator(); each.hasNext(); ) {
            Object[] one = (Object[]) each.next();
            SinkRecord record = (SinkRecord) one[0];
            Failed failed = (Failed) one[1];
            all.addArray().add(record.originalTopic()).add(record.originalKafkaPartition())
                .add(record.originalKafkaOffset()).add(failed.getMessage()).add(failed.stage).add(failed.plugin);
        }
        return mapper.writeValueAsString(all);
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
        return json.toConnectData(topic, ((String) value).getBytes(StandardCharsets.UTF_8)).value();
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
