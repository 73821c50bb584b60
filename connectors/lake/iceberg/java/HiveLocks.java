package headrace.lake;

import java.net.UnknownHostException;
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

    private static final String HELD = "Timed out after";

    private final TableOperations of;

    private HiveLocks(TableOperations of) {
        this.of = of;
    }

    /** The table, with these operations if it is Hive's. */
    static Table told(Table table) {
        if (table instanceof BaseTable && ((BaseTable) table).operations() instanceof HiveTableOperations) {
            BaseTable found = (BaseTable) table;
            return new BaseTable(new HiveLocks(found.operations()), found.name(), found.reporter());
        }
        return table;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
        try {
            of.commit(base, metadata);
        } catch (CommitFailedException error) {
            throw reason(error);
        }
    }

    /** A NoLock if the commit got no lock, else the error itself. */
    static RuntimeException reason(CommitFailedException error) {
        for (Throwable one = error.getCause(); one != null; one = one.getCause()) {
            if (one.getClass().getName().equals("org.apache.iceberg.hive.LockException")) {
                return new NoLock(one);
            }
        }
        return error;
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

        private NoLock(Throwable cause) {
            super(told(cause), cause);
            this.isHeld = isHeld(cause);
        }

        private static String told(Throwable cause) {
            if (cause.getCause() instanceof UnknownHostException) {
                return "no lock of Hive's metastore can be asked for, because nothing resolves the name of this machine ("
                        + cause.getCause().getMessage().split(":")[0] + "). Add it to /etc/hosts, or install"
                        + " libnss_wrapper (Debian: libnss-wrapper) and restart the worker";
            }
            return isHeld(cause)
                    ? "another writer holds the lock of the table in Hive's metastore; if that was killed, the metastore's"
                            + " hive.txn.timeout ends it"
                    : "Hive's metastore gives no lock. " + ADVICE;
        }

        private static boolean isHeld(Throwable cause) {
            return cause.getMessage() != null && cause.getMessage().startsWith(HELD);
        }
    }
}
