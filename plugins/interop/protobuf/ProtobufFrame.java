package headrace;

import java.io.Serializable;
import java.util.Arrays;

/** Finds the bytes before a message: those that name its schema, and the indexes of its type. */
public final class ProtobufFrame implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final byte[] NONE = {};
    private static final int DEEPEST = 64;

    /** Those bytes; empty if there are none. */
    public byte[] head(byte[] data) {
        int at = data.length > 0 && data[0] == 0 ? 5 : data.length > 0 && data[0] == 1 ? 17 : 0;
        if (at == 0 || data.length <= at) {
            return NONE;
        }
        int end = afterNumber(data, at);
        if (end < 0) {
            return NONE;
        }
        int count = count(data, at, end);
        for (int index = 0; index < count && end >= 0; index++) {
            end = count > DEEPEST ? -1 : afterNumber(data, end);
        }
        return end < 0 ? NONE : Arrays.copyOf(data, end);
    }

    private static int afterNumber(byte[] data, int at) {
        for (int end = at; end < data.length && end < at + 5; end++) {
            if (data[end] >= 0) {
                return end + 1;
            }
        }
        return -1;
    }

    private static int count(byte[] data, int at, int end) {
        int bits = 0;
        for (int place = at; place < end; place++) {
            bits |= (data[place] & 0x7F) << 7 * (place - at);
        }
        int count = (bits >>> 1) ^ -(bits & 1);
        return count < 0 ? DEEPEST + 1 : count;
    }
}
