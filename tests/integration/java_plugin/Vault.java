package org.example;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.provider.ConfigProvider;

/** A config provider whose values are its prefix, the path and the key; it has none of key `none`, and fails under path `locked`. */
public class Vault implements ConfigProvider {
    private String prefix;

    @Override public void configure(Map<String, ?> configs) {
        prefix = (String) configs.get("prefix");
    }

    @Override public ConfigData get(String path) {
        throw new UnsupportedOperationException();
    }

    @Override public ConfigData get(String path, Set<String> keys) {
        if (path.equals("locked")) {
            throw new IllegalStateException("the vault is locked");
        }
        Map<String, String> found = new HashMap<>();
        for (String key : keys) {
            if (!key.equals("none")) {
                found.put(key, prefix + path + key);
            }
        }
        return new ConfigData(found, 60_000L);
    }

    @Override public void close() { }
}
