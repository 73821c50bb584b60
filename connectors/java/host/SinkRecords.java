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

/** Passes a sink task's records through its stage before `put`. */
public final class SinkRecords {
    private final ObjectMapper mapper = new ObjectMapper();
    private final JavaStage stage;
    private final boolean tolerates;
    private List<Failure> failures = new ArrayList<>();
    private Map<TopicPartition, Integer> filtered = new HashMap<>();

    /** `ofStage`: null: there is none. */
    public SinkRecords(JavaStage ofStage, boolean doesTolerate) {
        stage = ofStage;
        tolerates = doesTolerate;
    }

    /**
     * Returns the records after the stage, without filtered and failed ones. Unless failures are tolerated, no record
     * after a failed one in its partition passes: they come again.
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

    /** Returns as JSON how many records of each partition the last call of `passed` filtered. */
    public String filtered() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        filtered.forEach((origin, count) -> all.addArray().add(origin.topic()).add(origin.partition()).add(count));
        return mapper.writeValueAsString(all);
    }

    /** Returns as JSON the records that failed in the last call of `passed`. */
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
