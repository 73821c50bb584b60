package headrace;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.Date;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;

/** The columns of Connect's types. */
final class Columns {
    static final String LOGICAL = "org.apache.kafka.connect.data.";

    /** Throws IllegalArgumentException if values of the schema cannot be carried. */
    static void check(Schema schema, int depth) {
        if (depth > 64) {
            throw new IllegalArgumentException("The schema is nested too deeply");
        }
        if (isDecimal(schema)) {
            String scale = schema.parameters() == null ? null : schema.parameters().get("scale");
            int number;
            try {
                number = Integer.parseInt(String.valueOf(scale));
            } catch (NumberFormatException none) {
                throw new IllegalArgumentException("A Decimal schema has the scale " + scale);
            }
            if (number < 0 || number > 38) {
                throw new IllegalArgumentException(
                    "Spark cannot hold decimals of scale " + number + ", only of 0 to 38");
            }
            return;
        }
        Schema.Type type = schema.type();
        if (type == Schema.Type.STRUCT) {
            schema.fields().forEach(field -> check(field.schema(), depth + 1));
        } else if (type == Schema.Type.ARRAY) {
            check(schema.valueSchema(), depth + 1);
        } else if (type == Schema.Type.MAP) {
            if (hasMap(schema.keySchema())) {
                throw new IllegalArgumentException("Spark cannot hold a map whose keys contain maps");
            }
            check(schema.keySchema(), depth + 1);
            check(schema.valueSchema(), depth + 1);
        }
    }

    private static boolean hasMap(Schema schema) {
        Schema.Type type = schema.type();
        return type == Schema.Type.MAP || type == Schema.Type.ARRAY && hasMap(schema.valueSchema())
            || type == Schema.Type.STRUCT && schema.fields().stream().map(Field::schema).anyMatch(Columns::hasMap);
    }

    static boolean isDecimal(Schema schema) {
        return schema.type() == Schema.Type.BYTES && (LOGICAL + "Decimal").equals(schema.name());
    }

    static Column of(Schema schema) {
        String name = schema.name() != null && schema.name().startsWith(LOGICAL)
            ? schema.name().substring(LOGICAL.length()) : "";
        return switch (schema.type()) {
            case INT8 -> new Fixed(Fixed.INT8);
            case INT16 -> new Fixed(Fixed.INT16);
            case INT32 -> new Fixed(name.equals("Date") ? Fixed.DATE : name.equals("Time") ? Fixed.TIME : Fixed.INT32);
            case INT64 -> new Fixed(name.equals("Timestamp") ? Fixed.TIMESTAMP : Fixed.INT64);
            case FLOAT32 -> new Fixed(Fixed.FLOAT32);
            case FLOAT64 -> new Fixed(Fixed.FLOAT64);
            case BOOLEAN -> new Bits();
            case BYTES -> isDecimal(schema)
                ? new Fixed(Integer.parseInt(schema.parameters().get("scale"))) : new Bytes();
            case STRING -> new Bytes();
            case ARRAY -> new Items(of(schema.valueSchema()), false);
            case MAP -> new Items(new Members(of(schema.keySchema()), of(schema.valueSchema())), true);
            case STRUCT -> new Members(schema);
        };
    }
}

/** An Arrow array that grows; its last rows can be removed. */
abstract class Column {
    int length;
    int nulls;
    private byte[] validity = new byte[64];

    abstract void append(Object data);

    abstract void appendEmpty();

    abstract void cut(int to);

    abstract void writeBuffers(ByteBuffer to);

    /** Size in bytes of its own buffers and those of its children. */
    abstract int size();

    int nodes() {
        return 1;
    }

    /** Marks the current row as not null and ends it. */
    final void valid() {
        grow();
        validity[length >> 3] |= (byte) (1 << (length & 7));
        length++;
    }

    final void appendNull() {
        appendEmpty();
        grow();
        validity[length >> 3] &= (byte) ~(1 << (length & 7));
        length++;
        nulls++;
    }

    private void grow() {
        if (validity.length <= length >> 3) {
            validity = Arrays.copyOf(validity, validity.length * 2);
        }
    }

    final void pad(int to) {
        while (length < to) {
            appendNull();
        }
    }

    /** Removes the rows from `to` on, including a partly appended one. */
    final void truncate(int to) {
        if (to == 0) {
            nulls = 0;
        }
        for (int i = to; i < length && nulls > 0; i++) {
            nulls -= (validity[i >> 3] >> (i & 7) & 1) == 0 ? 1 : 0;
        }
        length = Math.min(length, to);
        cut(length);
    }

    final void write(ByteBuffer to) {
        to.putLong(length).putLong(nulls);
        put(to, validity, nulls == 0 ? 0 : (length + 7) / 8);
        writeBuffers(to);
    }

    /** Writes a buffer after its length; start and end are aligned to eight bytes. */
    static void put(ByteBuffer to, byte[] bytes, int count) {
        to.putLong(count).put(bytes, 0, count);
        to.position((to.position() + 7) / 8 * 8);
    }

    final int validityBytes() {
        return length / 8 + 32;
    }
}

/** Numbers, and values that Arrow holds as numbers. */
final class Fixed extends Column {
    static final int INT8 = -1, INT16 = -2, INT32 = -3, INT64 = -4, FLOAT32 = -5, FLOAT64 = -6;
    static final int DATE = -7, TIME = -8, TIMESTAMP = -9;
    private static final BigInteger MOST = BigInteger.TEN.pow(38);
    private final int kind;
    private final int width;
    private ByteBuffer data = ByteBuffer.allocate(1024).order(ByteOrder.LITTLE_ENDIAN);

    /** `ofKind`: one of the kinds, or the scale of decimals. */
    Fixed(int ofKind) {
        kind = ofKind;
        width = kind >= 0 ? 16 : kind == INT8 ? 1 : kind == INT16 ? 2
            : kind == INT64 || kind == FLOAT64 || kind == TIMESTAMP ? 8 : 4;
    }

    @Override
    void append(Object value) {
        if (value == null) {
            appendNull();
            return;
        }
        int at = room();
        switch (kind) {
            case INT8 -> data.put(at, ((Number) value).byteValue());
            case INT16 -> data.putShort(at, ((Number) value).shortValue());
            case INT32 -> data.putInt(at, ((Number) value).intValue());
            case INT64 -> data.putLong(at, ((Number) value).longValue());
            case FLOAT32 -> data.putFloat(at, ((Number) value).floatValue());
            case FLOAT64 -> data.putDouble(at, ((Number) value).doubleValue());
            case DATE -> data.putInt(at, Math.toIntExact(Math.floorDiv(((Date) value).getTime(), 86_400_000L)));
            case TIME -> data.putInt(at, Math.toIntExact(((Date) value).getTime()));
            case TIMESTAMP -> data.putLong(at, Math.multiplyExact(((Date) value).getTime(), 1000L));
            default -> putDecimal(at, (BigDecimal) value);
        }
        valid();
    }

    private void putDecimal(int at, BigDecimal value) {
        if (value.scale() != kind) {
            throw new IllegalArgumentException("Decimal value has mismatching scale for given Decimal schema. "
                + "Schema has scale " + kind + ", value has scale " + value.scale() + ".");
        }
        BigInteger digits = value.unscaledValue();
        if (digits.abs().compareTo(MOST) >= 0) {
            String text = value.toPlainString();
            throw new IllegalArgumentException("A decimal has " + value.precision() + " digits, of which Spark holds 38: "
                + (text.length() > 50 ? text.substring(0, 50) + "..." : text)
                + ". Let its connector give it as text (Debezium's: decimal.handling.mode=string)");
        }
        data.putLong(at, digits.longValue());
        data.putLong(at + 8, digits.shiftRight(64).longValue());
    }

    private int room() {
        int at = length * width;
        if (data.capacity() < at + width) {
            byte[] larger = Arrays.copyOf(data.array(), 2 * data.capacity());
            data = ByteBuffer.wrap(larger).order(ByteOrder.LITTLE_ENDIAN);
        }
        return at;
    }

    @Override
    void appendEmpty() {
        int at = room();
        for (int i = 0; i < width; i++) {
            data.put(at + i, (byte) 0);
        }
    }

    @Override
    void cut(int to) {
    }

    @Override
    void writeBuffers(ByteBuffer to) {
        put(to, data.array(), length * width);
    }

    @Override
    int size() {
        return validityBytes() + length * width;
    }
}

final class Bits extends Column {
    private byte[] data = new byte[64];

    @Override
    void append(Object value) {
        if (value == null) {
            appendNull();
            return;
        }
        set((Boolean) value);
        valid();
    }

    private void set(boolean bit) {
        if (data.length <= length >> 3) {
            data = Arrays.copyOf(data, data.length * 2);
        }
        if (bit) {
            data[length >> 3] |= (byte) (1 << (length & 7));
        } else {
            data[length >> 3] &= (byte) ~(1 << (length & 7));
        }
    }

    @Override
    void appendEmpty() {
        set(false);
    }

    @Override
    void cut(int to) {
    }

    @Override
    void writeBuffers(ByteBuffer to) {
        put(to, data, (length + 7) / 8);
    }

    @Override
    int size() {
        return 2 * validityBytes();
    }
}

/** The end of each row in a column of varying size. */
final class Ends {
    private ByteBuffer data = ByteBuffer.allocate(1024).order(ByteOrder.LITTLE_ENDIAN);

    void set(int row, int end) {
        if (data.capacity() < 4 * row + 8) {
            byte[] larger = Arrays.copyOf(data.array(), 2 * data.capacity());
            data = ByteBuffer.wrap(larger).order(ByteOrder.LITTLE_ENDIAN);
        }
        data.putInt(4 * row + 4, end);
    }

    int of(int rows) {
        return data.getInt(4 * rows);
    }

    void write(ByteBuffer to, int rows) {
        Column.put(to, data.array(), 4 * rows + 4);
    }
}

/** Texts and bytes. */
final class Bytes extends Column {
    private final Ends ends = new Ends();
    private byte[] data = new byte[1024];
    private int used;
    private String text;
    private byte[] encoded;

    @Override
    void append(Object value) {
        if (value == null) {
            appendNull();
            return;
        }
        byte[] bytes;
        if (value == text) {  // most records have the topic of the one before
            bytes = encoded;
        } else if (value instanceof String given) {
            text = given;
            encoded = bytes = text.getBytes(StandardCharsets.UTF_8);
        } else if (value instanceof ByteBuffer given) {
            ByteBuffer source = given.duplicate();
            bytes = new byte[source.remaining()];
            source.get(bytes);
        } else {
            bytes = (byte[]) value;
        }
        int needed = Math.addExact(used, bytes.length);
        if (data.length < needed) {
            data = Arrays.copyOf(data, Math.max(needed, (int) Math.min(2L * data.length, 1 << 30)));
        }
        System.arraycopy(bytes, 0, data, used, bytes.length);
        used = needed;
        ends.set(length, used);
        valid();
    }

    @Override
    void appendEmpty() {
        ends.set(length, used);
    }

    @Override
    void cut(int to) {
        used = ends.of(to);
    }

    @Override
    void writeBuffers(ByteBuffer to) {
        ends.write(to, length);
        put(to, data, used);
    }

    @Override
    int size() {
        return validityBytes() + 4 * length + used;
    }
}

/** Arrays, and maps as arrays of entries. */
final class Items extends Column {
    final Column items;
    private final boolean isMap;
    private final Ends ends = new Ends();

    Items(Column ofItems, boolean ofMap) {
        items = ofItems;
        isMap = ofMap;
    }

    @Override
    void append(Object value) {
        if (value == null) {
            appendNull();
            return;
        }
        if (isMap) {
            Members entries = (Members) items;
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                if (entry.getKey() == null) {
                    throw new IllegalArgumentException("A map has a null key, which Spark cannot hold");
                }
                entries.member(0).append(entry.getKey());
                entries.member(1).append(entry.getValue());
                entries.valid();
            }
        } else {
            ((Collection<?>) value).forEach(items::append);
        }
        close();
    }

    /** Makes one row of the items appended since the last row. */
    void close() {
        ends.set(length, items.length);
        valid();
    }

    @Override
    void appendEmpty() {
        ends.set(length, items.length);
    }

    @Override
    void cut(int to) {
        items.truncate(ends.of(to));
    }

    @Override
    void writeBuffers(ByteBuffer to) {
        ends.write(to, length);
        items.write(to);
    }

    @Override
    int size() {
        return validityBytes() + 4 * length + items.size();
    }

    @Override
    int nodes() {
        return 1 + items.nodes();
    }
}

/** Structs, and the entries of maps. */
final class Members extends Column {
    private final Column[] members;
    private final String[] names;

    Members(Column... ofMembers) {
        members = ofMembers;
        names = null;
    }

    Members(Schema schema) {
        members = new Column[schema.fields().size()];
        names = new String[members.length];
        for (int i = 0; i < members.length; i++) {
            Field field = schema.fields().get(i);
            names[i] = field.name();
            members[i] = Columns.of(field.schema());
        }
    }

    Column member(int index) {
        return members[index];
    }

    @Override
    void append(Object value) {
        if (value == null) {
            appendNull();
            return;
        }
        Struct struct = (Struct) value;
        for (int i = 0; i < members.length; i++) {
            Object member = struct.getWithoutDefault(names[i]);
            try {
                members[i].append(member);
            } catch (IllegalArgumentException wrong) {
                throw new IllegalArgumentException("Field " + names[i] + ": " + wrong.getMessage());
            }
        }
        valid();
    }

    @Override
    void appendEmpty() {
        for (Column member : members) {
            member.appendNull();
        }
    }

    @Override
    void cut(int to) {
        for (Column member : members) {
            member.truncate(to);
        }
    }

    @Override
    void writeBuffers(ByteBuffer to) {
        for (Column member : members) {
            member.write(to);
        }
    }

    @Override
    int size() {
        int size = validityBytes();
        for (Column member : members) {
            size += member.size();
        }
        return size;
    }

    @Override
    int nodes() {
        int nodes = 1;
        for (Column member : members) {
            nodes += member.nodes();
        }
        return nodes;
    }
}
