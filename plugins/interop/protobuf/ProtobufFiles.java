package headrace;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/** A message type among compiled files, with the shape of its rows (`codec.py`), as sent to where a plan runs. */
final class ProtobufFiles implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final byte[] files;
    private final String message;
    private final String shape;

    ProtobufFiles(byte[] files, String message, String shape) {
        this.files = files;
        this.message = message;
        this.shape = shape;
    }

    JsonNode shape() {
        try {
            return JSON.readTree(shape);
        } catch (Exception error) {
            throw new IllegalArgumentException(error);
        }
    }

    Descriptor descriptor() {
        Map<String, FileDescriptor> built = new HashMap<>();
        try {
            for (FileDescriptorProto file : FileDescriptorSet.parseFrom(files).getFileList()) {
                // The compiler lists a file after all that it imports.
                FileDescriptor[] imported =
                        file.getDependencyList().stream().map(built::get).toArray(FileDescriptor[]::new);
                built.put(file.getName(), FileDescriptor.buildFrom(file, imported));
            }
        } catch (Exception error) {
            throw new IllegalArgumentException(error);
        }
        for (FileDescriptor file : built.values()) {
            for (Descriptor type : file.getMessageTypes()) {
                Descriptor found = within(type);
                if (found != null) {
                    return found;
                }
            }
        }
        throw new IllegalArgumentException("no message " + message);
    }

    private Descriptor within(Descriptor type) {
        if (type.getFullName().equals(message)) {
            return type;
        }
        for (Descriptor nested : type.getNestedTypes()) {
            Descriptor found = within(nested);
            if (found != null) {
                return found;
            }
        }
        return null;
    }
}
