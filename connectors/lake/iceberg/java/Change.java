package headrace.lake;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.UnaryOperator;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;

/** One commit to one table: snapshots and marks in one transaction, tried again until it is known what came of it. */
final class Change {
    private static final int ATTEMPTS = 50;
    private static final String TASK_ID = "kafka.connect.task-id";
    /** A lock for each table of this process: its tasks wait for each other in place of undoing each other's work. */
    private static final ConcurrentHashMap<String, Lock> LOCKS = new ConcurrentHashMap<>();

    private final Table table;
    private final Calls calls;
    private final Marks marks;
    private final String task;
    final String branch;
    final String id;

    Change(Table table, Calls calls, Marks marks, String branch, String task, String id) {
        this.table = table;
        this.calls = calls;
        this.marks = marks;
        this.branch = branch;
        this.task = task;
        this.id = id;
    }

    /**
     * Commits these snapshots; false if `next` has no marks to give, which it makes of those in the table.
     *
     * <p>Throws CommitStateUnknownException if they may be in the table, now or later.
     */
    boolean apply(UnaryOperator<ObjectNode> next, List<List<ContentFile<?>>> snapshots) throws Exception {
        Lock lock = LOCKS.computeIfAbsent(Tables.metadata(table).uuid(), uuid -> new ReentrantLock());
        for (int attempt = 1; ; attempt++) {
            lock.lockInterruptibly();
            try {
                // An attempt that is left does not hold the lock: others need not wait for what has no answer.
                return calls.within(() -> attempt(next, snapshots));
            } catch (MarksMoved | CommitFailedException error) {
                // The next attempt sees who was quicker, which may have been this commit itself.
                if (attempt == ATTEMPTS) {
                    throw error;
                }
            } catch (Calls.Left error) {
                throw new CommitStateUnknownException(error);
            } finally {
                lock.unlock();
            }
        }
    }

    private boolean attempt(UnaryOperator<ObjectNode> next, List<List<ContentFile<?>>> snapshots) {
        try {
            table.refresh();
            ObjectNode known = marks.of(table);
            ObjectNode after = next.apply(known);
            if (after == null) {
                return isIn();
            }
            transact(known, after, snapshots);
            return true;
        } catch (MarksMoved | CommitFailedException | HiveLocks.NoLock error) {
            throw error;
        } catch (RuntimeException | Error error) {
            boolean isAnswered = isRefreshed(error);
            if (isAnswered && isIn()) {
                return true;
            }
            boolean isRefused = isAnswered && error instanceof CleanableFailure;
            if (isRefused || error instanceof CommitStateUnknownException) {
                throw error;
            }
            throw new CommitStateUnknownException(error);
        }
    }

    private void transact(ObjectNode known, ObjectNode after, List<List<ContentFile<?>>> snapshots) {
        Transaction transaction = table.newTransaction();
        int count = Math.max(1, snapshots.size());
        for (int at = 0; at < count; at++) {
            SnapshotUpdate<?> update = update(transaction, snapshots.isEmpty() ? List.of() : snapshots.get(at));
            update.toBranch(branch);
            update.set(Intents.COMMIT_ID, id);
            update.set(TASK_ID, task);
            if (at == 0) {
                update.validateWith(ancestry -> guard(ancestry, transaction.table(), known));
            }
            if (at == count - 1) {
                update.set(marks.key(), after.toString());
            }
            update.commit();
        }
        UpdateProperties properties = transaction.updateProperties();
        marks.keep(properties, Tables.metadata(table), after);
        properties.commit();
        transaction.commitTransaction();
    }

    /** Called for each attempt of Iceberg's own: all marks must be those from which the new ones were made. */
    private boolean guard(Iterable<Snapshot> ancestry, Table now, ObjectNode known) {
        AlreadyIn.check(ancestry, id);
        if (!marks.of(ancestry, now.properties(), now.refs()).equals(known)) {
            throw new MarksMoved();
        }
        return true;
    }

    private static SnapshotUpdate<?> update(Transaction transaction, List<ContentFile<?>> files) {
        if (files.stream().allMatch(DataFile.class::isInstance)) {
            AppendFiles append = transaction.newAppend();
            files.forEach(one -> append.appendFile((DataFile) one));
            return append;
        }
        RowDelta delta = transaction.newRowDelta();
        for (ContentFile<?> one : files) {
            if (one instanceof DataFile) {
                delta.addRows((DataFile) one);
            } else {
                delta.addDeletes((DeleteFile) one);
            }
        }
        return delta;
    }

    private boolean isRefreshed(Throwable error) {
        try {
            table.refresh();
            return true;
        } catch (RuntimeException unanswered) {
            error.addSuppressed(unanswered);
            return false;
        }
    }

    private boolean isIn() {
        for (Snapshot one : table.snapshots()) {
            if (Intents.isOf(one, id)) {
                return true;
            }
        }
        return false;
    }
}
