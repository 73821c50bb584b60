package headrace.lake;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.security.AccessControlException;
import org.apache.iceberg.LocationProviders;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** A catalog whose commits fail in the ways of `flaky`: modes with commas, one for each commit, or files to wait for. */
public final class FlakyCatalog extends HadoopCatalog {
    private String[] modes;
    private int next;

    @Override
    public void initialize(String name, Map<String, String> properties) {
        modes = properties.get("flaky").split(",");
        super.initialize(name, properties);
    }

    @Override
    protected TableOperations newTableOps(TableIdentifier id) {
        if (next < modes.length && modes[next].matches("\\d+")) {
            throw new SdkServiceException(Integer.parseInt(modes[next++]));
        }
        return new Flaky(super.newTableOps(id));
    }

    private String mode() {
        return next < modes.length ? modes[next++] : "";
    }

    private final class Flaky implements TableOperations {
        private final TableOperations inner;

        Flaky(TableOperations inner) {
            this.inner = inner;
        }

        @Override
        public void commit(TableMetadata base, TableMetadata metadata) {
            String mode = mode();
            if (mode.equals("failed")) {
                throw new CommitFailedException("it was not applied");
            }
            if (mode.equals("refused")) {
                throw new ForbiddenException("this user may not");
            }
            if (mode.equals("denied")) {
                throw new IllegalStateException(new AccessControlException("this user may not"));
            }
            if (mode.startsWith("/")) {
                pause(Path.of(mode));
            }
            if (!mode.equals("never")) {
                inner.commit(base, metadata);
            }
            if (mode.equals("lost") || mode.equals("never")) {
                throw new CommitStateUnknownException(new RuntimeException("the connection broke"));
            }
            if (mode.equals("memory")) {
                throw new OutOfMemoryError("not really");
            }
            if (mode.equals("taken")) {
                throw new CommitFailedException("it was applied all the same");
            }
        }

        private void pause(Path asLongAs) {
            try {
                Files.createFile(asLongAs);
                while (Files.exists(asLongAs)) {
                    Thread.sleep(10);
                }
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public TableMetadata current() {
            return inner.current();
        }

        @Override
        public TableMetadata refresh() {
            return inner.refresh();
        }

        @Override
        public FileIO io() {
            return inner.io();
        }

        @Override
        public EncryptionManager encryption() {
            return inner.encryption();
        }

        @Override
        public String metadataFileLocation(String name) {
            return inner.metadataFileLocation(name);
        }

        @Override
        public LocationProvider locationProvider() {
            return LocationProviders.locationsFor(current().location(), current().properties());
        }

        @Override
        public TableOperations temp(TableMetadata metadata) {
            return inner.temp(metadata);
        }

        @Override
        public long newSnapshotId() {
            return inner.newSnapshotId();
        }
    }
}
