package headrace;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The steps of a task's records in the host, in order: transforms, and Java converters. Like Connect's
 * TransformationChain, with its retries; for one thread, except `end`.
 */
public final class JavaStage {
    private static final Logger LOG = LoggerFactory.getLogger("headrace.JavaStage");
    private static final long FIRST_DELAY_MS = 300;
    /** Outcome of a record that was not processed, because one before it failed. */
    static final Object UNTRIED = new Object();

    private final List<Step> steps = new ArrayList<>();
    private final Map<Header, byte[]> read = new IdentityHashMap<>();
    private final long retryMs;
    private final long mostDelayMs;
    private boolean logged;
    private boolean ended;

    /** `ofRetryMs`: how long retriable failures are retried; negative: for ever. */
    public JavaStage(long ofRetryMs, long ofMostDelayMs) {
        retryMs = ofRetryMs;
        mostDelayMs = ofMostDelayMs;
    }

    /** Adds a transform, for records that the predicate, if any, selects (`negate`: does not select). */
    public <R extends ConnectRecord<R>> void transform(Transformation<R> transform, ClassLoader loader,
                                                       Predicate<R> predicate, ClassLoader ofPredicate,
                                                       boolean negate) {
        steps.add(new TransformStep<>(transform, loader, predicate, ofPredicate, negate));
    }

    /** Adds a step that makes Kafka's bytes of headers and, if there are converters, of keys and values. */
    public void encode(Converter ofKeys, Converter ofValues, HeaderConverter ofHeaders) {
        steps.add(new Encoding(ofKeys, ofValues, ofHeaders, read));
    }

    /** Adds a step that reads Kafka's bytes, if there are converters; the headers are `RawHeaders`. */
    public void decode(Converter ofKeys, Converter ofValues, HeaderConverter ofHeaders) {
        steps.add(new Decoding(ofKeys, ofValues, ofHeaders, read));
    }

    /** Ends a wait for a retry, and prevents further ones; thread-safe. */
    public synchronized void end() {
        ended = true;
        notifyAll();
    }

    /** Returns the record after all steps; null: it is filtered. */
    ConnectRecord<?> apply(ConnectRecord<?> record) throws Failed, InterruptedException {
        ConnectRecord<?> made = record;
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try {
            for (int i = 0; i < steps.size() && made != null; i++) {
                made = tried(steps.get(i), made);
            }
        } finally {
            thread.setContextClassLoader(before);
        }
        return made;
    }

    /**
     * Returns each record's outcome: another record, null or its failure. Unless failures are tolerated, records after
     * one in its partition are UNTRIED: they come again.
     */
    List<Object> applied(List<? extends ConnectRecord<?>> records, boolean tolerates) throws InterruptedException {
        List<Object> outcomes = new ArrayList<>(records.size());
        Set<Object> stopped = new HashSet<>();
        for (ConnectRecord<?> record : records) {
            Object outcome = UNTRIED;
            if (stopped.isEmpty() || !stopped.contains(origin(record))) {
                try {
                    outcome = apply(record);
                } catch (Failed failed) {
                    outcome = failed;
                    if (!tolerates) {
                        stopped.add(origin(record));
                    }
                }
            }
            outcomes.add(outcome);
        }
        return outcomes;
    }

    /** Returns the partition that a record came from. */
    private static Object origin(ConnectRecord<?> record) {
        return record instanceof SinkRecord came ? origin(came) : ((SourceRecord) record).sourcePartition();
    }

    /** Returns the Kafka partition that a record came from. */
    static TopicPartition origin(SinkRecord record) {
        return new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
    }

    /** Runs the step on the record, with retries while it fails with a retriable error. */
    private ConnectRecord<?> tried(Step step, ConnectRecord<?> record) throws Failed, InterruptedException {
        long began = System.nanoTime();
        for (int tries = 0; ; tries++) {
            try {
                return step.run(record);
            } catch (RetriableException again) {
                if (!pause(tries, retryMs - (System.nanoTime() - began) / 1_000_000L)) {
                    throw failed(step, again);
                }
            } catch (Exception wrong) {
                throw failed(step, wrong);
            }
        }
    }

    /** Waits before a retry; returns false if there is no time for one. */
    synchronized boolean pause(int tries, long leftMs) throws InterruptedException {
        if (retryMs >= 0 && leftMs <= 0) {
            return false;
        }
        if (!ended) {
            long delay = Math.min(FIRST_DELAY_MS << Math.min(tries, 20), mostDelayMs);
            wait(Math.max(1, retryMs < 0 ? delay : Math.min(delay, leftMs)));
        }
        if (ended) {
            throw new InterruptedException("The task ends");  // the record has not failed
        }
        return true;
    }

    private Failed failed(Step step, Exception why) {
        if (!logged) {
            logged = true;
            LOG.warn("A record failed in " + step.plugin + "; of further ones no trace is shown", why);
        }
        // For data errors the worker names the class.
        return new Failed(step.stage, step.plugin,
            why.getClass() == DataException.class ? why.getMessage() : why.toString());
    }
}

/** The stage and class in which a record failed, named as in Connect. */
final class Failed extends Exception {
    final String stage;
    final String plugin;

    Failed(String ofStage, String ofPlugin, String message) {
        super(message, null, false, false);
        stage = ofStage;
        plugin = ofPlugin;
    }
}

abstract class Step {
    /** The current stage, for errors. */
    String stage;
    String plugin;

    abstract ConnectRecord<?> run(ConnectRecord<?> record) throws Exception;

    /** Enters a plugin: its class loader becomes the thread's. */
    final void enter(String ofStage, Object entered) {
        stage = ofStage;
        plugin = entered.getClass().getName();
        Thread.currentThread().setContextClassLoader(entered.getClass().getClassLoader());
    }
}

final class TransformStep<R extends ConnectRecord<R>> extends Step {
    private final Transformation<R> transform;
    private final ClassLoader loader;
    private final Predicate<R> predicate;
    private final ClassLoader ofPredicate;
    private final boolean negate;

    TransformStep(Transformation<R> ofTransform, ClassLoader ofLoader, Predicate<R> test, ClassLoader ofTest,
                  boolean negated) {
        transform = ofTransform;
        loader = ofLoader;
        predicate = test;
        ofPredicate = ofTest;
        negate = negated;
        stage = "TRANSFORMATION";
        plugin = transform.getClass().getName();
    }

    @Override
    @SuppressWarnings("unchecked")  // a stage is for sources' records or for sinks'
    ConnectRecord<?> run(ConnectRecord<?> given) {
        R record = (R) given;
        if (predicate != null) {
            Thread.currentThread().setContextClassLoader(ofPredicate);
            if (predicate.test(record) == negate) {
                return record;
            }
        }
        Thread.currentThread().setContextClassLoader(loader);
        return transform.apply(record);
    }
}

final class Encoding extends Step {
    /** Schema of a header's value that is Kafka's bytes. */
    static final Schema RAW = SchemaBuilder.bytes().optional().name("headrace.raw").build();

    private final Converter keys;
    private final Converter values;
    private final HeaderConverter headers;
    private final Map<Header, byte[]> read;

    /** `ofRead`: the record's headers that `Decoding` has read, with their bytes. */
    Encoding(Converter ofKeys, Converter ofValues, HeaderConverter ofHeaders, Map<Header, byte[]> ofRead) {
        keys = ofKeys;
        values = ofValues;
        headers = ofHeaders;
        read = ofRead;
    }

    @Override
    ConnectRecord<?> run(ConnectRecord<?> record) {
        RecordHeaders raw = new RecordHeaders();  // converters may add to them
        enter("HEADER_CONVERTER", headers);
        for (Header one : record.headers()) {
            // A Header is immutable, and copied records share it: this one is unchanged.
            raw.add(one.key(), read.containsKey(one) ? read.get(one)
                : headers.fromConnectHeader(record.topic(), one.key(), one.schema(), one.value()));
        }
        Schema keySchema = record.keySchema();
        Object key = record.key();
        if (keys != null) {
            enter("KEY_CONVERTER", keys);
            key = keys.fromConnectData(record.topic(), raw, keySchema, key);
            keySchema = key == null ? null : Schema.OPTIONAL_BYTES_SCHEMA;
        }
        Schema valueSchema = record.valueSchema();
        Object value = record.value();
        if (values != null) {
            enter("VALUE_CONVERTER", values);
            value = values.fromConnectData(record.topic(), raw, valueSchema, value);
            valueSchema = value == null ? null : Schema.OPTIONAL_BYTES_SCHEMA;
        }
        ConnectHeaders made = new ConnectHeaders();
        for (org.apache.kafka.common.header.Header one : raw) {
            made.add(one.key(), one.value(), RAW);
        }
        return record.newRecord(record.topic(), record.kafkaPartition(), keySchema, key, valueSchema, value,
            record.timestamp(), made);
    }
}

final class Decoding extends Step {
    private final Converter keys;
    private final Converter values;
    private final HeaderConverter headers;
    private final Map<Header, byte[]> read;

    /** `ofRead` receives the record's headers, by identity, with their bytes. */
    Decoding(Converter ofKeys, Converter ofValues, HeaderConverter ofHeaders, Map<Header, byte[]> ofRead) {
        keys = ofKeys;
        values = ofValues;
        headers = ofHeaders;
        read = ofRead;
    }

    @Override
    ConnectRecord<?> run(ConnectRecord<?> record) {
        RecordHeaders raw = ((RawHeaders) record.headers()).raw;
        SchemaAndValue key = new SchemaAndValue(record.keySchema(), record.key());
        if (keys != null) {
            enter("KEY_CONVERTER", keys);
            key = keys.toConnectData(record.topic(), raw, (byte[]) record.key());
        }
        SchemaAndValue value = new SchemaAndValue(record.valueSchema(), record.value());
        if (values != null) {
            enter("VALUE_CONVERTER", values);
            value = values.toConnectData(record.topic(), raw, (byte[]) record.value());
        }
        enter("HEADER_CONVERTER", headers);
        ConnectHeaders made = new ConnectHeaders();
        for (org.apache.kafka.common.header.Header one : raw) {
            made.add(one.key(), headers.toConnectHeader(record.topic(), one.key(), one.value()));
        }
        read.clear();
        Iterator<org.apache.kafka.common.header.Header> raws = raw.iterator();
        made.forEach(one -> read.put(one, raws.next().value()));
        return record.newRecord(record.topic(), record.kafkaPartition(), key.schema(), key.value(), value.schema(),
            value.value(), record.timestamp(), made);
    }
}

/** A record's headers as in Kafka, until they are read. */
final class RawHeaders extends ConnectHeaders {
    final RecordHeaders raw = new RecordHeaders();
}
