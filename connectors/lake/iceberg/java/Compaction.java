package headrace.lake;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.util.SnapshotUtil;
import org.apache.iceberg.util.StructLikeWrapper;

/**
 * Replaces small files of a partition by one, with the deletes that touch them carried out.
 *
 * <p>The new file has the data sequence number of the snapshot that was read: deletes that come meanwhile touch its rows
 * as they would have touched those of the old files.
 */
final class Compaction {
    /** The most deletes of one file: their keys are held in memory. */
    private static final long MOST_DELETES = 1_000_000;
    /** The most files that one look holds, each with its files of deletes. */
    private static final long MOST_HELD = 1_000_000;
    private static final long DURATION_MS = 3_600_000;

    private final Rewriting rewriting;
    private final Intents intents;
    private final Places places;
    private final String task;

    Compaction(Rewriting rewriting, Intents intents, Places places, String task) {
        this.rewriting = rewriting;
        this.intents = intents;
        this.places = places;
        this.task = task;
    }

    /** Files of one partition that are small, or have deletes. */
    private static final class Group {
        private final List<FileScanTask> tasks = new ArrayList<>();
        private final Set<String> deletes = new HashSet<>();

        private void add(FileScanTask one) {
            tasks.add(one);
            one.deletes().forEach(delete -> deletes.add(delete.location()));
        }

        /** The first files that together are large enough; none if so few would be in vain. */
        private List<FileScanTask> first(long bytes) {
            tasks.sort(Comparator.comparing(one -> one.file().dataSequenceNumber(),
                    Comparator.nullsFirst(Comparator.naturalOrder())));
            List<FileScanTask> found = new ArrayList<>();
            long size = 0;
            for (FileScanTask one : tasks) {
                if (size >= bytes) {
                    break;
                }
                found.add(one);
                size += one.file().fileSizeInBytes();
            }
            boolean isInVain = found.size() < 2 && found.stream().allMatch(one -> one.deletes().isEmpty());
            return isInVain ? List.of() : found;
        }
    }

    /** Replaces the files of one group, if a partition has so many; returns how many files are gone. */
    int run(Table table, String branch, int files, long bytes) throws IOException {
        Snapshot head = SnapshotUtil.latestSnapshot(Tables.metadata(table), branch);
        if (head == null) {
            return 0;
        }
        for (Group group : groups(table, head, bytes)) {
            List<FileScanTask> first = group.first(bytes);
            if (group.tasks.size() + group.deletes.size() >= files && !first.isEmpty()) {
                return replace(table, branch, head, first, spent(table, head, first));
            }
        }
        return 0;
    }

    private static Iterable<Group> groups(Table table, Snapshot head, long bytes) throws IOException {
        Map<List<Object>, Group> groups = new LinkedHashMap<>();
        Map<Integer, StructLikeWrapper> wrappers = new HashMap<>();
        long held = 0;
        try (CloseableIterable<FileScanTask> planned = planned(table, head)) {
            for (FileScanTask one : planned) {
                if (isWanted(one, bytes)) {
                    // Partitions of different values may have the same path, such as null and "null".
                    int spec = one.spec().specId();
                    StructLikeWrapper values = wrappers
                            .computeIfAbsent(spec, id -> StructLikeWrapper.forType(one.spec().partitionType()))
                            .copyFor(one.partition());
                    groups.computeIfAbsent(List.of(spec, values), place -> new Group()).add(one);
                    held += 1 + one.deletes().size();
                }
                if (held > MOST_HELD) {
                    break; // a later look sees the others
                }
            }
        }
        return groups.values();
    }

    private static CloseableIterable<FileScanTask> planned(Table table, Snapshot head) {
        return table.newScan().useSnapshot(head.snapshotId()).planFiles();
    }

    private static boolean isWanted(FileScanTask one, long bytes) {
        long deletes = one.deletes().stream().mapToLong(DeleteFile::recordCount).sum();
        return one.file().format() == FileFormat.PARQUET
                && deletes <= MOST_DELETES
                && (one.file().fileSizeInBytes() < bytes || !one.deletes().isEmpty());
    }

    /** The deletes that touch no other file than these. */
    private static Collection<DeleteFile> spent(Table table, Snapshot head, List<FileScanTask> replaced)
            throws IOException {
        Map<String, DeleteFile> spent = new LinkedHashMap<>();
        for (ManifestFile manifest : head.deleteManifests(table.io())) {
            try (ManifestReader<DeleteFile> found =
                    ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
                found.forEach(one -> spent.put(one.location(), one.copyWithoutStats()));
            }
        }
        Set<String> paths = new HashSet<>();
        replaced.forEach(one -> paths.add(one.file().location()));
        try (CloseableIterable<FileScanTask> planned = planned(table, head)) {
            for (FileScanTask one : planned) {
                if (!paths.contains(one.file().location())) {
                    one.deletes().forEach(delete -> spent.remove(delete.location()));
                }
            }
        }
        return spent.values();
    }

    private int replace(
            Table table, String branch, Snapshot head, List<FileScanTask> replaced, Collection<DeleteFile> spent)
            throws IOException {
        for (FileScanTask one : replaced) {
            places.check(one.file().location());
            one.deletes().forEach(delete -> places.check(delete.location()));
        }
        FileScanTask like = replaced.get(0);
        String id = UUID.randomUUID().toString();
        String name = "headrace-" + task.replaceAll("[^\\w.-]", "_") + "-compact-" + id + ".parquet";
        String location = like.spec().isUnpartitioned()
                ? table.locationProvider().newDataLocation(name)
                : table.locationProvider().newDataLocation(like.spec(), like.partition(), name);
        long until = System.currentTimeMillis() + DURATION_MS;
        String intent = intents.write(table, id, until, location);
        boolean isOver = true;
        DataFile made = null;
        try {
            made = rewriting.write(table, replaced, location);
            if (System.currentTimeMillis() > until - DURATION_MS / 2) {
                throw new IllegalStateException("it took too long");
            }
            isOver = false;
            commit(table, branch, head, replaced, spent, made, id);
        } catch (RuntimeException error) {
            isOver |= error instanceof CleanableFailure;
            throw error;
        } finally {
            // If the answer was lost, the file may be in the table: a later sweep looks at the intent.
            if (isOver) {
                delete(table, location, intent);
            }
        }
        if (made.recordCount() == 0) {
            delete(table, location, intent);
        } else {
            intents.delete(table, intent);
        }
        return replaced.size() + spent.size();
    }

    private void delete(Table table, String location, String intent) {
        if (Uploads.delete(table.io(), List.of(location))) {
            intents.delete(table, intent);
        }
    }

    private static void commit(Table table, String branch, Snapshot head, List<FileScanTask> replaced,
            Collection<DeleteFile> spent, DataFile made, String id) {
        RewriteFiles rewrite = table.newRewrite().validateFromSnapshot(head.snapshotId());
        replaced.forEach(one -> rewrite.deleteFile(one.file()));
        spent.forEach(rewrite::deleteFile);
        if (made.recordCount() > 0) {
            rewrite.addFile(made);
        }
        if (Tables.metadata(table).formatVersion() > 1) {
            rewrite.dataSequenceNumber(head.sequenceNumber());
        }
        rewrite.set(Intents.COMMIT_ID, id);
        rewrite.toBranch(branch);
        rewrite.validateWith(ancestry -> {
            AlreadyIn.check(ancestry, id);
            return true;
        });
        try {
            rewrite.commit();
        } catch (AlreadyIn found) {
            return; // the answer to an earlier attempt was lost
        }
    }

    /** Forgets snapshots before this time, but for the newest; returns their number. */
    int expire(Table table, long before) {
        if (!"true".equals(table.properties().getOrDefault("gc.enabled", "true"))) {
            return 0;
        }
        int count = table.expireSnapshots().expireOlderThan(before).retainLast(1).apply().size();
        if (count > 0) {
            ExpireSnapshots expiry = table.expireSnapshots().expireOlderThan(before).retainLast(1);
            if (places.areBounded()) { // else Iceberg deletes many files at once, if the store can
                expiry.deleteWith(location -> {
                    places.check(location); // Iceberg logs what is refused, and goes on
                    table.io().deleteFile(location);
                });
            }
            expiry.commit();
        }
        return count;
    }
}
