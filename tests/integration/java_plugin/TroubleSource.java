package org.example;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that counts, and misbehaves as its `mode` says; `notes` is a file of what it is told. */
public class TroubleSource extends SourceConnector {
    private Map<String, String> config;

    @Override public String version() { return "7.8"; }
    @Override public void stop() { }

    /** It is for a connector that has started only, as those that choose the class by their config have it. */
    @Override public Class<? extends Task> taskClass() { return config.isEmpty() ? null : TroubleTask.class; }

    @Override public void start(Map<String, String> props) {
        config = props;
        if (props.get("mode").equals("reconfigure")) {
            new Thread(() -> context.requestTaskReconfiguration()).start();
        }
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        if (config.get("mode").equals("crowd")) {
            return Collections.nCopies(20_000_000, config);
        }
        List<Map<String, String>> all = new ArrayList<>();
        for (int i = 0; i < Math.min(most, Integer.parseInt(config.getOrDefault("wanted.tasks", "1"))); i++) {
            Map<String, String> one = new HashMap<>(config);
            one.put("part", String.valueOf(i));
            all.add(one);
        }
        return all;
    }

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("mode", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT_VALUE, null, ConfigDef.Importance.HIGH,
                "What it does.", "Trouble", 1, ConfigDef.Width.SHORT, "The mode", List.of("secret"),
                new ConfigDef.Recommender() {
                    @Override public List<Object> validValues(String name, Map<String, Object> parsed) {
                        return List.of("count", "block");
                    }
                    @Override public boolean visible(String name, Map<String, Object> parsed) {
                        return true;
                    }
                })
            .define("secret", ConfigDef.Type.PASSWORD, "hush", null, ConfigDef.Importance.LOW, "Nobody may know.",
                "Trouble", 2, ConfigDef.Width.LONG, "The secret", new ConfigDef.Recommender() {
                    @Override public List<Object> validValues(String name, Map<String, Object> parsed) {
                        return List.of();
                    }
                    @Override public boolean visible(String name, Map<String, Object> parsed) {
                        return "count".equals(parsed.get("mode"));
                    }
                })
            .define("most", ConfigDef.Type.INT, 100, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "Rows.")
            .define("topic", ConfigDef.Type.STRING, "trouble", ConfigDef.Importance.LOW, "The topic.")
            .define("notes", ConfigDef.Type.STRING, null, ConfigDef.Importance.LOW, "The file of notes.");
    }

    @Override public Config validate(Map<String, String> props) {
        Config found = super.validate(props);
        for (ConfigValue value : found.configValues()) {
            if (value.name().equals("mode") && "refused".equals(value.value())) {
                value.addErrorMessage("the outside system refuses this mode");
            }
        }
        return found;
    }

    @Override public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> props) {
        return props.get("mode").equals("transactions")
            ? ConnectorTransactionBoundaries.SUPPORTED : ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    @Override public boolean alterOffsets(Map<String, String> props, Map<Map<String, ?>, Map<String, ?>> offsets) {
        for (Map<String, ?> offset : offsets.values()) {
            if (offset != null && !(offset.get("n") instanceof Long)) {
                throw new ConnectException("n is no number");
            }
        }
        return true;
    }

    public static class TroubleTask extends SourceTask {
        private Map<String, String> config;
        private String mode;
        private long next;
        private int polls;
        private volatile boolean ended;

        @Override public String version() { return "7.8"; }

        @Override public void start(Map<String, String> props) {
            config = props;
            mode = props.get("mode");
            Map<String, Object> stored = context.offsetStorageReader().offset(partition());
            next = stored == null ? 0 : (Long) stored.get("n") + 1;
            note("start " + next);
            if (mode.equals("where")) {
                note("from " + Path.of(getClass().getProtectionDomain().getCodeSource().getLocation().getPath())
                    .getFileName());
            }
            if (mode.equals("fail.start")) {
                throw new ConnectException("it does not start");
            }
        }

        private Map<String, Object> partition() {
            Map<String, Object> made = new LinkedHashMap<>();
            made.put("z", "part-" + config.get("part"));
            made.put("a", null);
            return made;
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            switch (mode) {
                case "block":
                    while (true) {
                        try {
                            Thread.sleep(1000);
                        } catch (InterruptedException ignored) {
                            // as bad plugins do
                        }
                    }
                case "throw":
                    throw new ConnectException("it throws", new IllegalStateException("the cause"));
                case "exit":
                    if (!Files.exists(Path.of(config.get("notes") + ".exited"))) {
                        try {
                            Files.createFile(Path.of(config.get("notes") + ".exited"));
                        } catch (java.io.IOException error) {
                            throw new ConnectException(error);
                        }
                        System.exit(7);
                    }
                    break;
                case "transactions":
                    return transactions();
                case "types":
                    return next++ == 0 ? types() : null;
                case "turns":
                    return next > 0 ? null : turns();
                case "odd":
                    return next++ > 0 ? null : List.of(
                        new SourceRecord(partition(), null, config.get("topic"), Schema.STRING_SCHEMA, new Date(0)),
                        new SourceRecord(partition(), null, config.get("topic"), null, new Date(0)),
                        new SourceRecord(partition(), null, config.get("topic"), Schema.STRING_SCHEMA, "after them"));
                case "print":
                    System.out.println("printed by a plugin");
                    break;
                default:
            }
            long most = Long.parseLong(config.getOrDefault("most", "100"));
            List<SourceRecord> made = rows(10, most);
            return made.isEmpty() ? null : made;
        }

        private List<SourceRecord> rows(int count, long most) {
            List<SourceRecord> made = new ArrayList<>();
            for (int i = 0; i < count && next < most; i++, next++) {
                made.add(new SourceRecord(partition(), Collections.singletonMap("n", next), config.get("topic"), 0,
                    Schema.INT64_SCHEMA, next, Schema.STRING_SCHEMA, "row " + next, 1000L + next));
            }
            return made;
        }

        /** Rows of two source partitions in turn, and one of none. */
        private List<SourceRecord> turns() {
            List<SourceRecord> made = new ArrayList<>();
            for (String of : Arrays.asList("a", "a", "b", null, "a", "b", "b")) {
                Map<String, ?> partition = of == null ? null : Collections.singletonMap("of", of);
                Map<String, ?> offset = of == null ? null : Collections.singletonMap("n", next);
                made.add(new SourceRecord(partition, offset, config.get("topic"), Schema.STRING_SCHEMA, "row " + next++));
            }
            return made;
        }

        /** Forty rows: 0 to 4, 13 to 19 and 30 to 34 are committed, and the last five left open. */
        private List<SourceRecord> transactions() {
            switch (polls++) {
                case 0: {
                    List<SourceRecord> made = rows(10, 40);
                    context.transactionContext().commitTransaction(made.get(4));
                    return made;
                }
                case 1: {
                    List<SourceRecord> made = rows(10, 40);
                    context.transactionContext().abortTransaction(made.get(2));
                    context.transactionContext().commitTransaction();
                    return made;
                }
                case 2:
                    context.transactionContext().abortTransaction();
                    return rows(10, 40);
                case 4:
                    context.transactionContext().commitTransaction();
                    return List.of();
                case 3:
                case 5:
                    return rows(5, 40);
                default:
                    return null;
            }
        }

        private List<SourceRecord> types() {
            Schema inner = SchemaBuilder.struct().name("inner").field("x", Schema.OPTIONAL_INT32_SCHEMA).build();
            Schema schema = SchemaBuilder.struct().name("all").version(3).doc("all types")
                .field("i8", Schema.INT8_SCHEMA).field("i16", Schema.INT16_SCHEMA).field("i32", Schema.INT32_SCHEMA)
                .field("i64", Schema.INT64_SCHEMA).field("f32", Schema.FLOAT32_SCHEMA)
                .field("f64", Schema.FLOAT64_SCHEMA).field("yes", Schema.BOOLEAN_SCHEMA)
                .field("text", SchemaBuilder.string().optional().defaultValue("given").build())
                .field("bytes", Schema.BYTES_SCHEMA).field("buffer", Schema.OPTIONAL_BYTES_SCHEMA)
                .field("decimal", Decimal.schema(2)).field("time", Time.SCHEMA).field("at", Timestamp.SCHEMA)
                .field("day", org.apache.kafka.connect.data.Date.SCHEMA)
                .field("micros", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").version(1)
                    .parameter("p", "q").optional().build())
                .field("list", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).build())
                .field("map", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).optional().build())
                .field("structs", SchemaBuilder.array(inner).optional().build())
                .field("inner", inner).build();
            Struct value = new Struct(schema)
                .put("i8", (byte) -8).put("i16", (short) -16).put("i32", -32).put("i64", Long.MIN_VALUE)
                .put("f32", 1.5f).put("f64", -2.25).put("yes", true).put("text", "h\u00e9 \ud83d\ude00")
                .put("bytes", new byte[] {0, -1, 2}).put("buffer", ByteBuffer.wrap(new byte[] {5}))
                .put("decimal", new BigDecimal("-12345678901234567890.12")).put("time", new Date(3_600_001))
                .put("at", new Date(-1)).put("day", new Date(-86_400_000L)).put("micros", 7L)
                .put("list", Arrays.asList("a", null)).put("map", Collections.singletonMap("k", 1))
                .put("structs", Arrays.asList(new Struct(inner).put("x", 1), new Struct(inner)))
                .put("inner", new Struct(inner));
            Map<String, Object> loose = new LinkedHashMap<>();
            loose.put("b", Arrays.asList(1, 2.5, "x", null));
            loose.put("a", Collections.singletonMap("n", true));
            List<SourceRecord> made = new ArrayList<>();
            made.add(record(schema, value, "with every type"));
            made.add(record(null, loose, "without schema"));
            made.add(record(null, null, "a tombstone"));
            made.add(record(Schema.OPTIONAL_STRING_SCHEMA, null, "a null with schema"));
            made.add(record(Decimal.schema(40), new BigDecimal("1").setScale(40), "beyond Spark"));
            Schema priced = SchemaBuilder.struct().field("price", Decimal.schema(10)).build();
            BigDecimal price = new BigDecimal("123456789012345678901234567890.5").setScale(10);
            made.add(record(priced, new Struct(priced).put("price", price), "longer than Spark's"));
            made.add(record(schema, value, "again"));
            made.get(0).headers().addInt("i", 5).addString("s", "t");
            return made;
        }

        private SourceRecord record(Schema schema, Object value, String key) {
            JsonConverter converter = new JsonConverter();
            converter.configure(Collections.singletonMap("schemas.enable", "true"), false);
            byte[] json = converter.fromConnectData("t", schema, value);
            note(json == null ? "null" : new String(json, java.nio.charset.StandardCharsets.UTF_8));
            return new SourceRecord(partition(), Collections.singletonMap("n", next++), config.get("topic"), null,
                Schema.STRING_SCHEMA, key, schema, value, 5L);
        }

        @Override public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            note("record " + record.sourceOffset().get("n") + " " + (metadata == null ? "nowhere" : metadata.topic() + "-"
                + metadata.partition() + "@" + metadata.offset() + " " + metadata.timestamp()));
        }

        @Override public void commit() { note("commit"); }

        @Override public void stop() { note("stop"); }

        private void note(String text) {
            if (config.get("notes") == null) {
                return;
            }
            try {
                Files.writeString(Path.of(config.get("notes")), text + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException error) {
                throw new ConnectException(error);
            }
        }
    }
}
