package headrace;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;

/** Writes Spark's rows as messages of one type; never throws for data. */
public final class ProtobufWriter implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int DAY_MS = 86_400_000;

    private final ProtobufFiles files;
    private final byte[] head;
    private transient volatile Writing writing;

    /** `head`: the bytes before each message. */
    public ProtobufWriter(byte[] files, String message, String shape, byte[] head) {
        this.files = new ProtobufFiles(files, message, shape);
        this.head = head;
    }

    /** The bytes; null for a row that the message cannot hold. */
    public byte[] write(InternalRow row) {
        try {
            return writing().of(row);
        } catch (Exception error) {
            return null;
        }
    }

    /** The reason that the message cannot hold this row; null if it can. */
    public String fault(InternalRow row) {
        try {
            writing().of(row);
            return null;
        } catch (Exception error) {
            return error.getMessage() == null ? error.toString() : error.getMessage();
        }
    }

    private Writing writing() {
        Writing made = writing;
        if (made == null) {
            Descriptor type = files.descriptor();
            made = new Writing(type, members(files.shape().get("members"), type));
            writing = made;
        }
        return made;
    }

    private final class Writing {
        private final Descriptor type;
        private final Member[] members;

        Writing(Descriptor type, Member[] members) {
            this.type = type;
            this.members = members;
        }

        byte[] of(InternalRow row) throws IOException {
            Message made = message(row, type, members);
            byte[] data = new byte[head.length + made.getSerializedSize()];
            System.arraycopy(head, 0, data, 0, head.length);
            CodedOutputStream output = CodedOutputStream.newInstance(data, head.length, data.length - head.length);
            made.writeTo(output);
            output.checkNoSpaceLeft();
            return data;
        }
    }

    /** Makes Protobuf's value from one of Spark's that is not null. */
    private interface Value {
        Object of(SpecializedGetters from, int at);
    }

    /** Sets a field from the row's member at this place. */
    private interface Member {
        boolean set(SpecializedGetters from, int at, DynamicMessage.Builder into);
    }

    private static Message message(SpecializedGetters row, Descriptor type, Member[] members) {
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
        for (int at = 0; at < members.length; at++) {
            members[at].set(row, at, builder);
        }
        return builder.build();
    }

    private static Member[] members(JsonNode shapes, Descriptor type) {
        List<Member> made = new ArrayList<>();
        for (JsonNode each : shapes) {
            made.add(member(each, type));
        }
        return made.toArray(new Member[0]);
    }

    private static Member member(JsonNode shape, Descriptor type) {
        String name = shape.get("name").asText();
        boolean required = shape.get("required").asBoolean();
        if (shape.has("union")) {
            return union(name, required, members(shape.get("union"), type));
        }
        if (!shape.has("number")) {
            return (from, at, into) -> false;
        }
        FieldDescriptor field = type.findFieldByNumber(shape.get("number").asInt());
        Value value = value(shape.get("value"), field);
        return (from, at, into) -> {
            if (from.isNullAt(at)) {
                if (required) {
                    throw new IllegalArgumentException("Found null value for non-optional schema: field " + name);
                }
                return false;
            }
            into.setField(field, value.of(from, at));
            return true;
        };
    }

    private static Member union(String name, boolean required, Member[] branches) {
        return (from, at, into) -> {
            if (from.isNullAt(at)) {
                if (required) {
                    throw new IllegalArgumentException("Found null value for non-optional schema: field " + name);
                }
                return false;
            }
            InternalRow row = from.getStruct(at, branches.length);
            for (int branch = 0; branch < branches.length; branch++) {
                if (branches[branch].set(row, branch, into)) {
                    return true;
                }
            }
            throw new IllegalArgumentException("No member of the oneof " + name + " is set");
        };
    }

    private static Value value(JsonNode shape, FieldDescriptor field) {
        Descriptor inner = field.getJavaType() == FieldDescriptor.JavaType.MESSAGE ? field.getMessageType() : null;
        switch (shape.get("kind").asText()) {
            case "list":
                Value item = value(shape.get("item"), field);
                return (from, at) -> items(from.getArray(at), item, field);
            case "map":
                return map(shape, inner);
            case "struct":
                Member[] members = members(shape.get("members"), inner);
                return (from, at) -> message(from.getStruct(at, members.length), inner, members);
            case "wrapped":
                FieldDescriptor wrapped = inner.findFieldByNumber(1);
                Value within = value(shape.get("value"), wrapped);
                return (from, at) ->
                        DynamicMessage.newBuilder(inner).setField(wrapped, within.of(from, at)).build();
            case "int8":
                return integer(field, (from, at) -> (long) from.getByte(at));
            case "int16":
                return integer(field, (from, at) -> (long) from.getShort(at));
            case "int32":
                return integer(field, (from, at) -> (long) from.getInt(at));
            case "int64":
                return integer(field, SpecializedGetters::getLong);
            case "float":
                return SpecializedGetters::getFloat;
            case "double":
                return SpecializedGetters::getDouble;
            case "boolean":
                return SpecializedGetters::getBoolean;
            case "text":
                return (from, at) -> from.getUTF8String(at).toString();
            case "bytes":
                return (from, at) -> ByteString.copyFrom(from.getBinary(at));
            case "symbol":
                return (from, at) -> symbol(field.getEnumType(), from.getUTF8String(at).toString());
            case "number":
                return (from, at) -> field.getEnumType().findValueByNumberCreatingIfUnknown(from.getInt(at));
            case "timestamp":
                return (from, at) -> timestamp(inner, from.getLong(at));
            case "date":
                return (from, at) -> date(inner, LocalDate.ofEpochDay(from.getInt(at)));
            case "time":
                return (from, at) -> time(inner, from.getInt(at));
            case "decimal":
                int scale = shape.get("scale").asInt();
                return (from, at) -> decimal(inner, from.getDecimal(at, 38, scale).toJavaBigDecimal());
            default:
                throw new IllegalArgumentException("no kind " + shape);
        }
    }

    /** Makes a value of an integer's wire type; one that it does not hold is refused, while Java cuts its bits off. */
    private static Value integer(FieldDescriptor field, Value number) {
        boolean isLong = field.getJavaType() == FieldDescriptor.JavaType.LONG;
        boolean isUnsigned =
                field.getType() == FieldDescriptor.Type.UINT32 || field.getType() == FieldDescriptor.Type.FIXED32;
        if (isLong) {
            return number;
        }
        return (from, at) -> {
            long found = (long) number.of(from, at);
            long least = isUnsigned ? 0 : Integer.MIN_VALUE, most = isUnsigned ? 0xFFFF_FFFFL : Integer.MAX_VALUE;
            if (found < least || found > most) {
                String type = field.getType().name().toLowerCase();
                throw new IllegalArgumentException(
                        "The field " + field.getName() + " of type " + type + " cannot hold " + found);
            }
            return (int) found;
        };
    }

    private static List<Object> items(ArrayData from, Value item, FieldDescriptor field) {
        List<Object> made = new ArrayList<>(from.numElements());
        for (int at = 0; at < from.numElements(); at++) {
            if (from.isNullAt(at)) {
                throw new IllegalArgumentException("The repeated field " + field.getName() + " cannot hold a null");
            }
            made.add(item.of(from, at));
        }
        return made;
    }

    private static Value map(JsonNode shape, Descriptor entry) {
        FieldDescriptor keyField = entry.findFieldByName("key"), valueField = entry.findFieldByName("value");
        Value key = value(shape.get("key"), keyField), value = value(shape.get("value"), valueField);
        return (from, at) -> {
            MapData given = from.getMap(at);
            ArrayData keys = given.keyArray(), values = given.valueArray();
            List<Object> made = new ArrayList<>(given.numElements());
            for (int each = 0; each < given.numElements(); each++) {
                if (values.isNullAt(each)) {
                    throw new IllegalArgumentException("The map of " + entry.getName() + " cannot hold a null");
                }
                DynamicMessage.Builder builder = DynamicMessage.newBuilder(entry);
                builder.setField(keyField, key.of(keys, each));
                made.add(builder.setField(valueField, value.of(values, each)).build());
            }
            return made;
        };
    }

    private static EnumValueDescriptor symbol(EnumDescriptor type, String symbol) {
        EnumValueDescriptor found = type.findValueByName(symbol);
        if (found == null) {
            throw new IllegalArgumentException("The enum " + type.getName() + " has no symbol " + symbol);
        }
        return found;
    }

    private static Message timestamp(Descriptor type, long micros) {
        long ms = Math.floorDiv(micros, 1_000L);
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
        builder.setField(type.findFieldByNumber(1), Math.floorDiv(ms, 1_000L));
        return builder.setField(type.findFieldByNumber(2), (int) Math.floorMod(ms, 1_000L) * 1_000_000).build();
    }

    private static Message date(Descriptor type, LocalDate date) {
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
        builder.setField(type.findFieldByNumber(1), date.getYear());
        builder.setField(type.findFieldByNumber(2), date.getMonthValue());
        return builder.setField(type.findFieldByNumber(3), date.getDayOfMonth()).build();
    }

    private static Message time(Descriptor type, int ms) {
        if (ms < 0 || ms > DAY_MS) {
            throw new IllegalArgumentException("A Time of " + ms + " ms is not within a day");
        }
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
        builder.setField(type.findFieldByNumber(1), ms / 3_600_000);
        builder.setField(type.findFieldByNumber(2), ms / 60_000 % 60);
        builder.setField(type.findFieldByNumber(3), ms / 1_000 % 60);
        return builder.setField(type.findFieldByNumber(4), ms % 1_000 * 1_000_000).build();
    }

    private static Message decimal(Descriptor type, BigDecimal value) {
        DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
        builder.setField(type.findFieldByNumber(1), ByteString.copyFrom(value.unscaledValue().toByteArray()));
        builder.setField(type.findFieldByNumber(2), value.precision());
        return builder.setField(type.findFieldByNumber(3), value.scale()).build();
    }
}
