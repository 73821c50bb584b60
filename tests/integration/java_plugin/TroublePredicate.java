package org.example;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Holds for records whose value contains a text. */
public class TroublePredicate<R extends ConnectRecord<R>> implements Predicate<R> {
    private String text;

    @Override public ConfigDef config() {
        return new ConfigDef().define("text", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The text.");
    }

    @Override public void configure(Map<String, ?> config) {
        text = (String) config().parse(config).get("text");
    }

    @Override public boolean test(R record) { return String.valueOf(record.value()).contains(text); }

    @Override public void close() { }
}
