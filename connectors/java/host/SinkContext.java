package headrace;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** A sink task's context, of Connect's own class, whose private fields plugins use; delegates to another context. */
public final class SinkContext extends WorkerSinkTaskContext {
    private final SinkTaskContext answers;

    /** `consumer`: stands where Connect has the task's consumer. */
    public SinkContext(SinkTaskContext whoAnswers, Consumer<byte[], byte[]> consumer) {
        super(consumer, null, null);
        answers = whoAnswers;
    }

    @Override
    public Map<String, String> configs() {
        return answers.configs();
    }

    @Override
    public void offset(Map<TopicPartition, Long> offsets) {
        answers.offset(offsets);
    }

    @Override
    public void offset(TopicPartition partition, long offset) {
        answers.offset(partition, offset);
    }

    @Override
    public void timeout(long milliseconds) {
        answers.timeout(milliseconds);
    }

    @Override
    public Set<TopicPartition> assignment() {
        return answers.assignment();
    }

    @Override
    public void pause(TopicPartition... partitions) {
        answers.pause(partitions);
    }

    @Override
    public void resume(TopicPartition... partitions) {
        answers.resume(partitions);
    }

    @Override
    public void requestCommit() {
        answers.requestCommit();
    }

    @Override
    public ErrantRecordReporter errantRecordReporter() {
        return answers.errantRecordReporter();
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return answers.pluginMetrics();
    }

    @Override
    public String toString() {
        return answers.toString();
    }
}
