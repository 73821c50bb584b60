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
    private final Chain chain;
    private final boolean tolerates;
    private List failures = new ArrayList();
    private Map filtered = new HashMap();

    /** `ofChain`: null: nothing. */
    public SinkRecords(Chain ofChain, boolean doesTolerate) {
        chain = ofChain;
        tolerates = doesTolerate;
    }

    /**
     * The records as the chain leaves them, without those that it filters or that fail in it. Where failures are not
     * tolerated, nothing after one passes of its partition: these records come again.
     */
    public List passed(List records) throws InterruptedException {
        failures = new ArrayList();
        filtered = new HashMap();
        if (chain == null) {
            return records;
        }
        List passed = new ArrayList(records.size());
        Iterator outcomes = chain.applied(records, tolerates).iterator();
        for (Iterator all = records.iterator(); all.hasNext(); ) {
            SinkRecord record = (SinkRecord) all.next();
            Object outcome = outcomes.next();
            if (outcome instanceof Failed) {
                failures.add(new Object[] {record, outcome});
            } else if (outcome == null) {
                Object origin = Chain.origin(record);
                Integer before = (Integer) filtered.get(origin);
                filtered.put(origin, Integer.valueOf(before == null ? 1 : before.intValue() + 1));
            } else if (outcome != Chain.UNTRIED) {
                passed.add(outcome);
            }
        }
        return passed;
    }

    /** How many records of each partition were filtered in the last call of `passed`, as JSON. */
    public String filtered() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        for (Iterator each = filtered.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry one = (Map.Entry) each.next();
            TopicPartition origin = (TopicPartition) one.getKey();
            all.addArray().add(origin.topic()).add(origin.partition()).add((Integer) one.getValue());
        }
        return mapper.writeValueAsString(all);
    }

    /** The records that failed in the last call of `passed`, as JSON. */
    public String failures() throws Exception {
        ArrayNode all = mapper.createArrayNode();
        for (Iterator each = failures.iterator(); each.hasNext(); ) {
            Object[] one = (Object[]) each.next();
            SinkRecord record = (SinkRecord) one[0];
            Failed failed = (Failed) one[1];
            all.addArray().add(record.originalTopic()).add(record.originalKafkaPartition())
                .add(record.originalKafkaOffset()).add(failed.getMessage()).add(failed.stage).add(failed.plugin);
        }
        return mapper.writeValueAsString(all);
    }
}
