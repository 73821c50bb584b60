package headrace;

import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.TransactionContext;

/** Receives a source task's requests to end transactions, and returns them as its records are taken. */
public final class Transactions implements TransactionContext {
    private final Set<SourceRecord> committed = new HashSet<>();
    private final Set<SourceRecord> aborted = new HashSet<>();
    private boolean commits;
    private boolean aborts;

    @Override
    public synchronized void commitTransaction() {
        commits = true;
    }

    @Override
    public synchronized void commitTransaction(SourceRecord record) {
        committed.add(Objects.requireNonNull(record, "the last record of a transaction to commit"));
    }

    @Override
    public synchronized void abortTransaction() {
        aborts = true;
    }

    @Override
    public synchronized void abortTransaction(SourceRecord record) {
        aborted.add(Objects.requireNonNull(record, "the last record of a transaction to abort"));
    }

    /**
     * Returns how the transaction ends after this record, which may be the last one polled: `commit`, `abort`, or null.
     */
    synchronized String after(SourceRecord record, boolean isLast) {
        String ofBatch = isLast ? afterBatch() : null;
        // A set hashes the whole record even if the set is empty.
        boolean commit = !committed.isEmpty() && committed.remove(record);
        boolean abort = !aborted.isEmpty() && aborted.remove(record);
        String own = end(commit, abort, record);
        return own == null ? ofBatch : own;
    }

    /** Returns how the transaction ends after all polled records. */
    synchronized String afterBatch() {
        String end = end(commits, aborts, null);
        commits = false;
        aborts = false;
        return end;
    }

    /** `record`: the last of the transaction; null: the last one polled. */
    private static String end(boolean commit, boolean abort, SourceRecord record) {
        if (commit && abort) {
            throw new IllegalStateException("The task asked both to commit and to abort " + (record == null
                ? "the transaction of the records polled last"
                : "a transaction whose last record has the offset " + record.sourceOffset()));
        }
        return commit ? "commit" : abort ? "abort" : null;
    }
}
