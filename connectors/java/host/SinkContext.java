package headrace;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** A sink task's context, of Connect's own class, whose private fields plugins know; another one answers. */
public final class SinkContext extends WorkerSinkTaskContext {
    private final SinkTaskContext answers;

    /** `consumer`: what a plugin finds where Connect has the task's consumer. */
    public SinkContext(SinkTaskContext whoAnswers, Consumer consumer) {
        super(consumer, null, null);
        answers = whoAnswers;
    }

    public Map configs() {
        return answers.configs();
    }

    public void offset(Map offsets) {
        answers.offset(offsets);
    }

    public void offset(TopicPartition partition, long offset) {
        answers.offset(partition, offset);
    }

    public void timeout(long milliseconds) {
        answers.timeout(milliseconds);
    }

    public Set assignment() {
        return answers.assignment();
    }

    public void pause(TopicPartition[] partitions) {
        answers.pause(partitions);
    }

    public void resume(TopicPartition[] partitions) {
        answers.resume(partitions);
    }

    public void requestCommit() {
        answers.requestCommit();
    }

    public ErrantRecordReporter errantRecordReporter() {
        return answers.errantRecordReporter();
    }

    public PluginMetrics pluginMetrics() {
        return answers.pluginMetrics();
    }

    public String toString() {
        return answers.toString();
    }
}
