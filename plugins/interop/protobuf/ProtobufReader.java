package headrace;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads messages of one type into Spark's rows; never throws for data. */
public final class ProtobufReader implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int DAY_MS = 86_400_000;
    /** Bytes of 38 digits and as many zeros as a scale can take away; more would take a second to be counted. */
    private static final int LONGEST_DECIMAL = 512;

    private final ProtobufFiles files;
    private final int start;
    private transient volatile Reading reading;

    /** `start`: how many bytes stand before a message. */
    public ProtobufReader(byte[] files, String message, String shape, int start) {
        this.files = new ProtobufFiles(files, message, shape);
        this.start = start;
    }

    /** The row; null for bytes that hold none. */
    public InternalRow read(byte[] data) {
        try {
            return (InternalRow) reading().of(data);
        } catch (Exception error) {
            return null;
        }
    }

    /** The reason that these bytes hold no row; null if they hold one. */
    public String fault(byte[] data) {
        try {
            reading().of(data);
            return null;
        } catch (Exception error) {
            return error.getMessage() == null ? error.toString() : error.getMessage();
        }
    }

    private Reading reading() {
        Reading made = reading;
        if (made == null) {
            Descriptor type = files.descriptor();
            made = new Reading(type, value(files.shape(), type, null));
            reading = made;
        }
        return made;
    }

    private final class Reading {
        private final DynamicMessage empty;
        private final Value row;

        Reading(Descriptor type, Value row) {
            this.empty = DynamicMessage.getDefaultInstance(type);
            this.row = row;
        }

        Object of(byte[] data) throws Exception {
            if (data.length < start) {
                throw new IllegalArgumentException("The bytes end before the message");
            }
            CodedInputStream input = CodedInputStream.newInstance(data, start, data.length - start);
            DynamicMessage.Builder builder = empty.newBuilderForType();
            builder.mergeFrom(input);
            input.checkLastTagWas(0);
            return row.of(builder.build());
        }
    }

    /** Makes Spark's value from one of Protobuf's that is set. */
    private interface Value {
        Object of(Object value);
    }

    /** Makes a member of a row from the message. */
    private interface Member {
        Object of(Message message);
    }

    private static Value value(JsonNode shape, Descriptor type, FieldDescriptor field) {
        boolean isMessage = field != null && field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
        Descriptor inner = isMessage ? field.getMessageType() : type;
        switch (shape.get("kind").asText()) {
            case "list":
                Value item = value(shape.get("item"), type, field);
                return found -> items((List<?>) found, item);
            case "map":
                return map(shape, inner);
            case "struct":
                return struct(shape, inner);
            case "wrapped":
                FieldDescriptor wrapped = inner.findFieldByNumber(1);
                Value within = value(shape.get("value"), null, wrapped);
                return found -> within.of(((Message) found).getField(wrapped));
            case "int8":
                return found -> (byte) checked((Integer) found, Byte.MIN_VALUE, Byte.MAX_VALUE);
            case "int16":
                return found -> (short) checked((Integer) found, Short.MIN_VALUE, Short.MAX_VALUE);
            case "unsigned32":
                return found -> Integer.toUnsignedLong((Integer) found);
            case "text":
                return found -> UTF8String.fromString((String) found);
            case "bytes":
                return found -> ((ByteString) found).toByteArray();
            case "symbol":
                return found -> UTF8String.fromString(((EnumValueDescriptor) found).getName());
            case "number":
                return found -> ((EnumValueDescriptor) found).getNumber();
            case "timestamp":
                FieldDescriptor seconds = inner.findFieldByNumber(1), nanos = inner.findFieldByNumber(2);
                return found -> micros((long) get(found, seconds), (int) get(found, nanos));
            case "date":
                return date(inner);
            case "time":
                return time(inner);
            case "decimal":
                return decimal(inner, shape.get("scale").asInt());
            default:
                return found -> found;
        }
    }

    private static Object get(Object message, FieldDescriptor field) {
        return ((Message) message).getField(field);
    }

    private static int checked(int value, int least, int most) {
        if (value < least || value > most) {
            throw new ArithmeticException(value + " is not between " + least + " and " + most);
        }
        return value;
    }

    private static GenericArrayData items(List<?> found, Value item) {
        Object[] made = new Object[found.size()];
        for (int at = 0; at < made.length; at++) {
            made[at] = item.of(found.get(at));
        }
        return new GenericArrayData(made);
    }

    private static Value map(JsonNode shape, Descriptor entry) {
        FieldDescriptor keyField = entry.findFieldByName("key"), valueField = entry.findFieldByName("value");
        Value key = value(shape.get("key"), null, keyField), value = value(shape.get("value"), null, valueField);
        return found -> {
            // An entry may come twice; the last one counts.
            Map<Object, Object> made = new LinkedHashMap<>();
            for (Object each : (List<?>) found) {
                made.put(key.of(get(each, keyField)), value.of(get(each, valueField)));
            }
            GenericArrayData values = new GenericArrayData(made.values().toArray());
            return new ArrayBasedMapData(new GenericArrayData(made.keySet().toArray()), values);
        };
    }

    private static Value struct(JsonNode shape, Descriptor type) {
        Member[] members = members(shape.get("members"), type);
        return found -> row((Message) found, members);
    }

    private static Member[] members(JsonNode shapes, Descriptor type) {
        List<Member> made = new ArrayList<>();
        for (JsonNode each : shapes) {
            made.add(member(each, type));
        }
        return made.toArray(new Member[0]);
    }

    private static GenericInternalRow row(Message message, Member[] members) {
        Object[] made = new Object[members.length];
        for (int at = 0; at < made.length; at++) {
            made[at] = members[at].of(message);
        }
        return new GenericInternalRow(made);
    }

    private static Member member(JsonNode shape, Descriptor type) {
        if (shape.has("union")) {
            Member[] branches = members(shape.get("union"), type);
            return message -> {
                GenericInternalRow made = row(message, branches);
                return allNull(made) ? null : made;
            };
        }
        FieldDescriptor field = type.findFieldByNumber(shape.get("number").asInt());
        Value value = value(shape.get("value"), null, field);
        if (shape.get("nullable").asBoolean()) {
            return message -> message.hasField(field) ? value.of(message.getField(field)) : null;
        }
        return message -> value.of(message.getField(field));
    }

    private static boolean allNull(InternalRow row) {
        for (int at = 0; at < row.numFields(); at++) {
            if (!row.isNullAt(at)) {
                return false;
            }
        }
        return true;
    }

    private static long micros(long seconds, int nanos) {
        checked(nanos, 0, 999_999_999);
        return Math.multiplyExact(Math.addExact(Math.multiplyExact(seconds, 1_000L), nanos / 1_000_000), 1_000L);
    }

    private static Value date(Descriptor type) {
        FieldDescriptor year = type.findFieldByNumber(1);
        FieldDescriptor month = type.findFieldByNumber(2), day = type.findFieldByNumber(3);
        return found -> {
            LocalDate made = LocalDate.of((int) get(found, year), (int) get(found, month), (int) get(found, day));
            return Math.toIntExact(made.toEpochDay());
        };
    }

    private static Value time(Descriptor type) {
        FieldDescriptor hours = type.findFieldByNumber(1), minutes = type.findFieldByNumber(2);
        FieldDescriptor seconds = type.findFieldByNumber(3), nanos = type.findFieldByNumber(4);
        return found -> {
            int minute = checked((int) get(found, hours), 0, 24) * 60 + checked((int) get(found, minutes), 0, 59);
            int second = minute * 60 + checked((int) get(found, seconds), 0, 60);
            int ms = second * 1_000 + checked((int) get(found, nanos), 0, 999_999_999) / 1_000_000;
            return checked(ms, 0, DAY_MS);
        };
    }

    private static Value decimal(Descriptor type, int scale) {
        FieldDescriptor unscaled = type.findFieldByNumber(1), own = type.findFieldByNumber(3);
        return found -> {
            byte[] digits = ((ByteString) get(found, unscaled)).toByteArray();
            if (digits.length == 0) {
                throw new ArithmeticException("A Decimal has no bytes");
            }
            if (digits.length > LONGEST_DECIMAL) {
                throw new ArithmeticException("A Decimal has more than 38 digits");
            }
            int given = checked((int) get(found, own), -1_000, 1_000);
            BigDecimal value = new BigDecimal(new BigInteger(digits), given);
            try {
                value = value.setScale(scale, RoundingMode.UNNECESSARY);
            } catch (ArithmeticException error) {
                throw new ArithmeticException("A Decimal has more than " + scale + " digits after the decimal point");
            }
            if (value.precision() > 38) {
                throw new ArithmeticException("A Decimal has more than 38 digits");
            }
            return Decimal.apply(value, 38, scale);
        };
    }
}
