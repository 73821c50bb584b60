package org.example;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform that adds to texts, and misbehaves as they say; tombstones pass. */
public class TroubleTransform<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    private String suffix;
    private int failures;

    @Override public String version() { return "7.7"; }

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("suffix", ConfigDef.Type.STRING, "!", new ConfigDef.NonEmptyString(), ConfigDef.Importance.HIGH,
                "What it adds.", "Trouble", 1, ConfigDef.Width.SHORT, "The suffix")
            .define("count", ConfigDef.Type.INT, 0, ConfigDef.Range.between(0, 9), ConfigDef.Importance.LOW, "Nothing.");
    }

    @Override public void configure(Map<String, ?> config) {
        suffix = (String) config().parse(config).get("suffix");
    }

    @Override public R apply(R record) {
        if (Thread.currentThread().getContextClassLoader() != getClass().getClassLoader()) {
            throw new AssertionError("another class loader");
        }
        if (record.value() == null) {
            return record;
        }
        String value = String.valueOf(record.value());
        if (value.contains("drop")) {
            return null;
        }
        if (value.contains("bad")) {
            throw new IllegalStateException("it refuses " + value);
        }
        if (value.contains("never")) {
            System.out.println("a trouble transform tries in vain");
            throw new RetriableException("never");
        }
        if (value.contains("slow") && failures++ < 2) {
            throw new RetriableException("not now");
        }
        record.headers().addString("by", "trouble");
        return record.newRecord(record.topic(), record.kafkaPartition(), Schema.STRING_SCHEMA, "key of " + value,
            Schema.STRING_SCHEMA, value + suffix, 1234L);
    }

    @Override public void close() {
        System.out.println("a trouble transform was closed");
    }
}
