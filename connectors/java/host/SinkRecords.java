package headrace;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;

/** What a sink task's records pass before `put`. */
public final class SinkRecords {
    private final ObjectMapper mapper = new ObjectMapper();
    private final JavaStage stage;
    private final boolean tolerates;
    private List<Failure> failures = new ArrayList<>();
    private Map<TopicPartition, Integer> filtered = new HashMap<>();

    /** `ofStage`: null: nothing. */
    public SinkRecords(JavaStage ofStage, boolean doesTolerate) {
        stage = ofStage;
        tolerates = doesTolerate;
    }

    /**
     * The records as the stage leaves them, without those that it filters or that fail in it. Where failures are not
     * tolerated, nothing after one passes of its partition: these records come again.
     */
    public List<?> passed(List<SinkRecord> records) throws InterruptedException {
        failures = new ArrayList<>();
        filtered = new HashMap<>();
        if (stage == null) {
            return records;
        }
        List<Object> passed = new ArrayList<>(records.size());
        Iterator<Object> outcomes = stage.applied(records, tolerates).iterator();
        for (SinkRecord record : records) {
            Object outcome = outcomes.next();
            if (outcome instanceof Failed failed) {
                failures.add(new Failure(record, failed));
            } else if (outcome == null) {
                filtered.merge(JavaStage.origin(record), 1, Integer::sum);
            } else if (outcome != JavaStage.UNTRIED) {
                passed.add(outcome);
            }
        }
        return passed;
    }

    /** How many records of each partition were filtered in the last call of `passed`, as JSON. */
    public String filtered() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        filtered.forEach((origin, count) -> all.addArray().add(origin.topic()).add(origin.partition()).add(count));
        return mapper.writeValueAsString(all);
    }

    /** The records that failed in the last call of `passed`, as JSON. */
    public String failures() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        for (Failure one : failures) {
            all.addArray().add(one.record.originalTopic()).add(one.record.originalKafkaPartition())
                .add(one.record.originalKafkaOffset()).add(one.failed.getMessage()).add(one.failed.stage)
                .add(one.failed.plugin);
        }
        return mapper.writeValueAsString(all);
    }

    private record Failure(SinkRecord record, Failed failed) {
    }
}
