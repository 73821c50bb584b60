package headrace;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.connect.connector.ConnectRecord;

/** The records of a task that runs in the worker, on their way through a stage and back: rows out are rows in. */
public final class WorkerRecords {
    private final JavaStage stage;
    private final boolean tolerates;
    private final RecordColumns columns = new RecordColumns(null);

    /** `doesTolerate`: as of `JavaStage.applied`. */
    public WorkerRecords(JavaStage ofStage, boolean doesTolerate) {
        stage = ofStage;
        tolerates = doesTolerate;
    }

    /** Passes records through the stage; what `buffer` holds then, as JSON. */
    public String apply(List<ConnectRecord<?>> records) throws InterruptedException {
        RecordColumns.Rows rows = columns.begin(0);
        Iterator<Object> outcomes = stage.applied(records, tolerates).iterator();
        for (ConnectRecord<?> record : records) {
            Object outcome = outcomes.next();
            rows.add(record, outcome == JavaStage.UNTRIED ? null : outcome);
        }
        return columns.written(rows);
    }

    /** What `apply` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }
}
