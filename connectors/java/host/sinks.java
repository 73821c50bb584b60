package headrace;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.kafka.connect.sink.SinkRecord;

/** What a sink task's records pass before `put`. */
public final class SinkRecords {
    private final ObjectMapper mapper = new ObjectMapper();
    private final Chain chain;
    private final boolean tolerates;
    private List failures = new ArrayList();

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
        if (chain == null) {
            return records;
        }
        List passed = new ArrayList(records.size());
        Iterator outcomes = chain.applied(records, tolerates).iterator();
        for (Iterator all = records.iterator(); all.hasNext(); ) {
            Object record = all.next();
            Object outcome = outcomes.next();
            if (outcome instanceof Failed) {
                failures.add(new Object[] {record, outcome});
            } else if (outcome != null) {
                passed.add(outcome);
            }
        }
        return passed;
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
