package headrace;

import java.io.Serializable;
import java.util.Arrays;
import java.util.HexFormat;

/** Finds the bytes before a message: those that name its schema, and those that name its type. */
public final class ProtobufFrame implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final byte[] NONE = {};
    private static final int DEEPEST = 64;
    private static final int LONGEST_NAME = 1024;

    private final byte[][] starts;
    private final int[] lengths;
    private final boolean byName;

    /**
     * `forms`: the start of the bytes that name a schema, in hexadecimal, and their length, as in `00:5,01:17`.
     * `byName`: a message with the type's name follows, its length before it; else the indexes of the type.
     */
    public ProtobufFrame(String forms, boolean byName) {
        String[] each = forms.split(",");
        this.starts = new byte[each.length][];
        this.lengths = new int[each.length];
        this.byName = byName;
        for (int at = 0; at < each.length; at++) {
            String[] parts = each[at].split(":");
            starts[at] = HexFormat.of().parseHex(parts[0]);
            lengths[at] = Integer.parseInt(parts[1]);
        }
    }

    /** Those bytes; empty if there are none. */
    public byte[] head(byte[] data) {
        int at = length(data);
        if (at == 0 || data.length <= at) {
            return NONE;
        }
        int end = afterNumber(data, at);
        if (end < 0) {
            return NONE;
        }
        if (byName) {
            long length = bits(data, at, end);
            return length > LONGEST_NAME || length > data.length - end
                    ? NONE
                    : Arrays.copyOf(data, end + (int) length);
        }
        int count = count(data, at, end);
        for (int index = 0; index < count && end >= 0; index++) {
            end = count > DEEPEST ? -1 : afterNumber(data, end);
        }
        return end < 0 ? NONE : Arrays.copyOf(data, end);
    }

    /** The length of the bytes that name the schema; 0 if there are none. */
    private int length(byte[] data) {
        for (int at = 0; at < starts.length; at++) {
            int length = starts[at].length;
            if (data.length >= length && Arrays.equals(data, 0, length, starts[at], 0, length)) {
                return data.length >= lengths[at] ? lengths[at] : 0;
            }
        }
        return 0;
    }

    private static int afterNumber(byte[] data, int at) {
        for (int end = at; end < data.length && end < at + 5; end++) {
            if (data[end] >= 0) {
                return end + 1;
            }
        }
        return -1;
    }

    private static long bits(byte[] data, int at, int end) {
        long bits = 0;
        for (int place = at; place < end; place++) {
            bits |= (data[place] & 0x7FL) << 7 * (place - at);
        }
        return bits;
    }

    private static int count(byte[] data, int at, int end) {
        int bits = (int) bits(data, at, end);
        int count = (bits >>> 1) ^ -(bits & 1);
        return count < 0 ? DEEPEST + 1 : count;
    }
}
