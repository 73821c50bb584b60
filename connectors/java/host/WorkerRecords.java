package headrace;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.connect.connector.ConnectRecord;

/** Passes records of a task in the worker through a stage and back: each row in is a row out. */
public final class WorkerRecords {
    private final JavaStage stage;
    private final boolean tolerates;
    private final RecordColumns columns = new RecordColumns(null);

    /** `doesTolerate`: as for `JavaStage.applied`. */
    public WorkerRecords(JavaStage ofStage, boolean doesTolerate) {
        stage = ofStage;
        tolerates = doesTolerate;
    }

    /** Applies the stage; writes the result to `buffer` and returns its head as JSON. */
    public String apply(List<ConnectRecord<?>> records) throws InterruptedException {
        RecordColumns.Rows rows = columns.begin(0);
        Iterator<Object> outcomes = stage.applied(records, tolerates).iterator();
        for (ConnectRecord<?> record : records) {
            Object outcome = outcomes.next();
            rows.add(record, outcome == JavaStage.UNTRIED ? null : outcome);
        }
        return columns.written(rows);
    }

    /** Returns what `apply` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }
}
