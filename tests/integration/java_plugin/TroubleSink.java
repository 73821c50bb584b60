package org.example;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.LoggerFactory;

/** A sink that notes what it is told in the file `notes`, and misbehaves as its `mode` says. */
public class TroubleSink extends SinkConnector {
    private Map<String, String> config;

    @Override public String version() { return "7.9"; }
    @Override public Class<? extends Task> taskClass() { return TroubleSinkTask.class; }
    @Override public void start(Map<String, String> props) { config = props; }
    @Override public void stop() { }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return Collections.nCopies(most, config);
    }

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("mode", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "What it does.")
            .define("notes", ConfigDef.Type.STRING, ConfigDef.Importance.LOW, "The file of notes.");
    }

    @Override public boolean alterOffsets(Map<String, String> props, Map<TopicPartition, Long> offsets) {
        for (Map.Entry<TopicPartition, Long> one : offsets.entrySet()) {
            if (one.getValue() != null && one.getValue().longValue() == 13) {
                throw new ConnectException("13 is no good offset");
            }
        }
        return true;
    }

    public static class TroubleSinkTask extends SinkTask {
        private Map<String, String> config;
        private String mode;
        private int failures;
        private Thread thread;
        private final Map<TopicPartition, Long> held = new HashMap<>();

        @Override public String version() { return "7.9"; }

        @Override public void start(Map<String, String> props) {
            config = props;
            mode = props.get("mode");
            thread = Thread.currentThread();
            note("start");
            LoggerFactory.getLogger(TroubleSink.class).info("the sink starts");
        }

        @Override public void open(Collection<TopicPartition> partitions) {
            note("open " + partitions + " of " + context.assignment().size());
            if (mode.equals("skip")) {
                for (TopicPartition one : partitions) {
                    context.offset(one, 5);
                }
            }
        }

        @Override public void put(Collection<SinkRecord> records) {
            if (Thread.currentThread() != thread) {
                throw new ConnectException("another thread");
            }
            if (records.isEmpty()) {
                note("nothing");
                if (mode.equals("pause") && !held.isEmpty()) {
                    once("resumed", () -> {
                        note("resumes");
                        context.resume(context.assignment().toArray(new TopicPartition[0]));
                    });
                }
                if (mode.equals("late")) {
                    throw new ConnectException("it throws without records");
                }
                return;
            }
            switch (mode) {
                case "throw":
                    throw new ConnectException("it throws", new IllegalStateException("the cause"));
                case "retry":
                    if (failures++ < 2) {
                        note("failed " + values(records));
                        throw new RetriableException("not now");
                    }
                    break;
                case "exit":
                    once("exited", () -> System.exit(7));
                    break;
                case "block":
                    while (true) {
                        try {
                            Thread.sleep(1000);
                        } catch (InterruptedException ignored) {
                            // as bad plugins do
                        }
                    }
                case "back":
                    once("went.back", () -> context.offset(new TopicPartition(config.get("topics"), 0), 2));
                    break;
                case "report":
                    for (SinkRecord record : records) {
                        if (String.valueOf(record.value()).startsWith("bad")) {
                            context.errantRecordReporter().report(record, new IllegalArgumentException("it is bad"));
                        } else {
                            note("put " + record.value());
                        }
                    }
                    return;
                case "late":
                    context.timeout(50);
                    break;
                case "pause":
                    if (held.isEmpty()) {
                        context.pause(context.assignment().toArray(new TopicPartition[0]));
                        context.timeout(3000);
                    }
                    break;
                case "types":
                    records.forEach(this::describe);
                    return;
                default:
            }
            for (SinkRecord record : records) {
                note("put " + record.value());
                held.put(new TopicPartition(record.topic(), record.kafkaPartition()), record.kafkaOffset());
            }
            if (mode.equals("hold")) {
                context.requestCommit();
            }
        }

        private List<Object> values(Collection<SinkRecord> records) {
            List<Object> all = new ArrayList<>();
            records.forEach(record -> all.add(record.value()));
            return all;
        }

        private void once(String what, Runnable run) {
            try {
                Files.createFile(Path.of(config.get("notes") + "." + what));
            } catch (java.io.IOException there) {
                return;
            }
            run.run();
        }

        @Override public Map<TopicPartition, OffsetAndMetadata> preCommit(
            Map<TopicPartition, OffsetAndMetadata> current) {
            if (mode.equals("flush.fails")) {
                once("flush.failed", () -> {
                    note("flush fails");
                    throw new ConnectException("it does not flush");
                });
            }
            if (!mode.equals("hold")) {
                return super.preCommit(current);
            }
            Map<TopicPartition, OffsetAndMetadata> released = new HashMap<>();
            held.forEach((partition, offset) -> {
                if (offset >= 3) {
                    released.put(partition, new OffsetAndMetadata(offset - 2));  // the last three are not durable
                }
            });
            note("preCommit " + new TreeMap<>(Map.of("n", current.size())));
            return released;
        }

        @Override public void flush(Map<TopicPartition, OffsetAndMetadata> current) {
            current.forEach((partition, offset) -> note("flush " + partition.partition() + " " + offset.offset()));
        }

        @Override public void close(Collection<TopicPartition> partitions) { note("close " + partitions); }

        @Override public void stop() { note("stop"); }

        private void describe(SinkRecord record) {
            StringBuilder headers = new StringBuilder();
            for (Header header : record.headers()) {
                headers.append(header.key()).append('=').append(header.value()).append(' ')
                    .append(header.schema() == null ? null : header.schema().type()).append(' ');
            }
            note("record " + record.topic() + " " + record.kafkaPartition() + " " + record.kafkaOffset() + " "
                + record.timestamp() + " " + record.timestampType() + " " + record.originalTopic() + " " + headers);
            note(json(record.keySchema(), record.key()));
            note(json(record.valueSchema(), record.value()));
            note(classes(record.value()));
        }

        private static String json(Schema schema, Object value) {
            JsonConverter converter = new JsonConverter();
            converter.configure(Collections.singletonMap("schemas.enable", "true"), false);
            byte[] json = converter.fromConnectData("t", schema, value);
            return json == null ? "null" : new String(json, StandardCharsets.UTF_8);
        }

        private static String classes(Object value) {
            if (value instanceof Struct) {
                Struct struct = (Struct) value;
                struct.validate();
                StringBuilder found = new StringBuilder("Struct");
                for (Field field : struct.schema().fields()) {
                    found.append(' ').append(classes(struct.getWithoutDefault(field.name())));
                }
                return found.toString();
            }
            return value == null ? "null" : value.getClass().getSimpleName();
        }

        private void note(String text) {
            try {
                Files.writeString(Path.of(config.get("notes")), text + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException error) {
                throw new ConnectException(error);
            }
        }
    }
}
