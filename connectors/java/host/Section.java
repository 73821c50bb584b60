package headrace;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.connect.connector.ConnectRecord;

/** The records of a task that runs in the worker, on their way through a chain and back: rows out are rows in. */
public final class Section {
    private final Chain chain;
    private final boolean tolerates;
    private final RecordColumns columns = new RecordColumns(null);

    /** `doesTolerate`: as of `Chain.applied`. */
    public Section(Chain ofChain, boolean doesTolerate) {
        chain = ofChain;
        tolerates = doesTolerate;
    }

    /** Passes records through the chain; what `buffer` holds then, as JSON. */
    public String apply(List<ConnectRecord<?>> records) throws InterruptedException {
        RecordColumns.Rows rows = columns.begin(0);
        Iterator<Object> outcomes = chain.applied(records, tolerates).iterator();
        for (ConnectRecord<?> record : records) {
            Object outcome = outcomes.next();
            rows.add(record, outcome == Chain.UNTRIED ? null : outcome);
        }
        return columns.written(rows);
    }

    /** What `apply` wrote; valid until the next call. */
    public ByteBuffer buffer() {
        return columns.buffer();
    }
}
