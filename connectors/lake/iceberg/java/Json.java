package headrace.lake;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Requests, answers and the texts that are kept in tables. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    static ObjectNode read(String text) {
        try {
            return (ObjectNode) MAPPER.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("not JSON: " + error.getOriginalMessage());
        }
    }

    static Map<String, String> strings(JsonNode of) {
        Map<String, String> found = new LinkedHashMap<>();
        of.properties().forEach(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    static List<String> texts(JsonNode of) {
        List<String> found = new ArrayList<>();
        of.forEach(one -> found.add(one.asText()));
        return found;
    }
}
