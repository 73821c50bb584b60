package headrace.lake;

import java.net.UnknownHostException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Comparator;
import org.apache.hadoop.hive.metastore.api.LockState;
import org.apache.hadoop.hive.metastore.api.ShowLocksRequest;
import org.apache.hadoop.hive.metastore.api.ShowLocksResponseElement;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.hive.HiveTableOperations;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.thrift.TException;

/**
 * The operations of a table in Hive's metastore, which tell that a commit got no lock.
 *
 * <p>Iceberg takes that for a commit that another writer was quicker than, and tries it again: five times, with as many
 * tries for each lock. Where there are no locks, that takes hours in all.
 */
final class HiveLocks implements TableOperations {
    /** What to do if Hive's metastore gives no lock. */
    private static final String ADVICE = "Look into the log of Hive's metastore, or, if it is 2.3.10, 4.0 or newer and all"
            + " writers do the same, set iceberg.hadoop.iceberg.engine.hive.lock-enabled=false";

    /** Without all of them Hive 2.3 ends no lock, ever, and says little about it. */
    private static final String HOUSEKEEPING = "hive.compactor.initiator.on=true, hive.support.concurrency=true and"
            + " hive.txn.manager=org.apache.hadoop.hive.ql.lockmgr.DbTxnManager (since Hive 4:"
            + " metastore.housekeeping.threads.on=true)";

    private static final String HELD = "Timed out after";

    private final HiveTableOperations of;

    private HiveLocks(HiveTableOperations of) {
        this.of = of;
    }

    /** The table, with these operations if it is Hive's. */
    static Table told(Table table) {
        if (table instanceof BaseTable && ((BaseTable) table).operations() instanceof HiveTableOperations) {
            BaseTable found = (BaseTable) table;
            HiveLocks told = new HiveLocks((HiveTableOperations) found.operations());
            return new BaseTable(told, found.name(), found.reporter());
        }
        return table;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
        try {
            of.commit(base, metadata);
        } catch (CommitFailedException error) {
            throw reason(error, of);
        }
    }

    /** A NoLock if the commit with these operations got no lock, else the error itself. */
    static RuntimeException reason(CommitFailedException error, HiveTableOperations of) {
        for (Throwable one = error.getCause(); one != null; one = one.getCause()) {
            if (one.getClass().getName().equals("org.apache.iceberg.hive.LockException")) {
                return noLock(one, of);
            }
        }
        return error;
    }

    private static NoLock noLock(Throwable error, HiveTableOperations of) {
        if (error.getMessage() != null && error.getMessage().startsWith(HELD)) {
            return new NoLock("another writer holds the table's lock in Hive's metastore" + holder(of) + ". That of a"
                    + " killed one ends after hive.txn.timeout only if the metastore has " + HOUSEKEEPING, error, true);
        }
        if (error.getCause() instanceof UnknownHostException) {
            String name = error.getCause().getMessage().split(":")[0];
            return new NoLock("no lock of Hive's metastore can be asked for, because nothing resolves the name of this"
                    + " machine (" + name + "). Add it to /etc/hosts, or install libnss_wrapper (Debian: libnss-wrapper)"
                    + " and restart the worker", error, false);
        }
        return new NoLock("Hive's metastore gives no lock. " + ADVICE, error, false);
    }

    /** The lock that others wait for, as far as the metastore tells. */
    private static String holder(HiveTableOperations table) {
        ShowLocksRequest request = new ShowLocksRequest();
        request.setDbname(table.database());
        request.setTablename(table.table());
        try {
            return table.metaClients().run(client -> client.showLocks(request)).getLocks().stream()
                    .min(Comparator.comparing((ShowLocksResponseElement one) -> one.getState() != LockState.ACQUIRED)
                            .thenComparing(ShowLocksResponseElement::getLockid))
                    .map(HiveLocks::told)
                    .orElse("");
        } catch (TException error) {
            return "";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return "";
        }
    }

    private static String told(ShowLocksResponseElement lock) {
        return ": lock " + lock.getLockid() + " of " + lock.getUser() + " on " + lock.getHostname()
                + ", last heard of at " + Instant.ofEpochMilli(lock.getLastheartbeat()).truncatedTo(ChronoUnit.SECONDS);
    }

    @Override
    public TableMetadata current() {
        return of.current();
    }

    @Override
    public TableMetadata refresh() {
        return of.refresh();
    }

    @Override
    public FileIO io() {
        return of.io();
    }

    @Override
    public EncryptionManager encryption() {
        return of.encryption();
    }

    @Override
    public String metadataFileLocation(String name) {
        return of.metadataFileLocation(name);
    }

    @Override
    public LocationProvider locationProvider() {
        return of.locationProvider();
    }

    @Override
    public TableOperations temp(TableMetadata uncommitted) {
        return of.temp(uncommitted);
    }

    @Override
    public long newSnapshotId() {
        return of.newSnapshotId();
    }

    @Override
    public boolean requireStrictCleanup() {
        return of.requireStrictCleanup();
    }

    /** A commit that was not made because it got no lock. */
    static final class NoLock extends RuntimeException implements CleanableFailure {
        private static final long serialVersionUID = 1L;

        /** True if another writer holds the lock, or one that was killed did. */
        final boolean isHeld;

        private NoLock(String message, Throwable cause, boolean isHeld) {
            super(message, cause);
            this.isHeld = isHeld;
        }
    }
}
