package org.example;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Puts brackets around texts, both ways, and a header beside them. */
public class TroubleConverter implements Converter, HeaderConverter {
    private String open = "<";

    @Override public String version() { return "7.6"; }

    @Override public ConfigDef config() {
        return new ConfigDef().define("open", ConfigDef.Type.STRING, "<", ConfigDef.Importance.LOW, "The bracket.");
    }

    @Override public void configure(Map<String, ?> config) { open = (String) config().parse(config).get("open"); }

    @Override public void configure(Map<String, ?> config, boolean isKey) { configure(config); }

    @Override public byte[] fromConnectData(String topic, Schema schema, Object value) {
        if (value == null) {
            return null;
        }
        if (value.toString().contains("unconvertible")) {
            throw new DataException("it converts no " + value);
        }
        return (open + value + ">").getBytes(StandardCharsets.UTF_8);
    }

    @Override public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        headers.add("written", new byte[] {'y'});
        return fromConnectData(topic, schema, value);
    }

    @Override public SchemaAndValue toConnectData(String topic, byte[] value) {
        if (value == null) {
            return SchemaAndValue.NULL;
        }
        String text = new String(value, StandardCharsets.UTF_8);
        if (text.contains("unconvertible")) {
            throw new DataException("it converts no " + text);
        }
        return new SchemaAndValue(Schema.STRING_SCHEMA, open + text + ">");
    }

    @Override public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
        return fromConnectData(topic, schema, value);
    }

    @Override public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
        return toConnectData(topic, value);
    }

    @Override public void close() { }
}
