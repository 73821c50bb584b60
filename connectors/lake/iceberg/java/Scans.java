package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.data.GenericDeleteFilter;
import org.apache.iceberg.data.IdentityPartitionConverters;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetReaders;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.util.PartitionUtil;

/** What a source reads of a table: snapshots in their order, their files, and copies of these. */
final class Scans {
    private static final int MOST = 1000;
    /** Before the first snapshot. */
    private static final long ROOT = -1;

    private final Tables tables;
    /** The files that may have to be read rather than copied, of the snapshots that were planned last, by table. */
    private final Map<String, Planned> planned = new HashMap<>();

    Scans(Tables tables) {
        this.tables = tables;
    }

    /** The head of a branch, and the snapshots up to it that follow {@code after}, the oldest first. */
    ObjectNode snapshots(ObjectNode request, String branch) {
        Table table = tables.existing(request.get("table").asText());
        SnapshotRef ref = table.refs().get(branch);
        if (ref == null && !branch.equals(SnapshotRef.MAIN_BRANCH)) {
            throw new IllegalArgumentException("there is no branch " + branch);
        }
        Snapshot head = ref == null ? table.currentSnapshot() : table.snapshot(ref.snapshotId());
        long after = request.path("after").asLong(ROOT);
        List<Snapshot> found = new ArrayList<>();
        boolean isReached = head == null && after == ROOT;
        for (Snapshot one = head; one != null && !isReached; one = table.snapshot(one.parentId())) {
            if (one.snapshotId() == after) {
                isReached = true;
                break;
            }
            found.add(one);
            isReached = (one.parentId() == null ? ROOT : one.parentId()) == after;
            if (one.parentId() == null) {
                break;
            }
        }
        Collections.reverse(found);
        ObjectNode answer = Json.object()
                .put("uuid", Tables.metadata(table).uuid())
                .put("schema_id", Tables.metadata(table).currentSchemaId())
                .put("head", head == null ? ROOT : head.snapshotId())
                .put("is_reached", isReached)
                .put("is_known", after == ROOT || table.snapshot(after) != null);
        ArrayNode defaults = answer.putArray("defaults");
        TypeUtil.indexById(table.schema().asStruct()).values().stream()
                .filter(field -> field.initialDefault() != null)
                .forEach(field -> defaults.add(field.fieldId()));
        ArrayNode snapshots = answer.putArray("snapshots");
        for (Snapshot one : found.subList(0, Math.min(found.size(), MOST))) {
            snapshots.addObject()
                    .put("id", one.snapshotId())
                    .put("timestamp", one.timestampMillis())
                    .put("operation", one.operation());
        }
        return answer;
    }

    /** The data files that a snapshot has, or those that it added, by their paths; and the files of their deletes. */
    ObjectNode files(ObjectNode request) throws IOException {
        Table table = tables.existing(request.get("table").asText());
        Snapshot snapshot = table.snapshot(request.get("snapshot").asLong());
        if (snapshot == null) {
            return Json.object().put("is_known", false);
        }
        Map<String, ObjectNode> files = new TreeMap<>();
        Set<String> deletes = new TreeSet<>();
        boolean isWhole = request.get("whole").asBoolean();
        boolean isMapped = table.properties().containsKey(TableProperties.DEFAULT_NAME_MAPPING);
        Planned plan = new Planned(table, snapshot.snapshotId(), isWhole);
        if (isWhole) {
            try (CloseableIterable<FileScanTask> tasks =
                    table.newScan().useSnapshot(snapshot.snapshotId()).planFiles()) {
                for (FileScanTask task : tasks) {
                    files.put(task.file().location(), file(task.file()));
                    if (isMapped || !task.deletes().isEmpty()) {
                        plan.tasks.put(task.file().location(), task);
                        task.deletes().forEach(one -> deletes.add(one.location()));
                    }
                }
            }
        } else {
            for (DataFile one : snapshot.addedDataFiles(table.io())) {
                files.put(one.location(), file(one));
                if (isMapped) {
                    plan.tasks.put(one.location(), task(table, one));
                }
            }
        }
        planned.put(table.name(), plan);
        ObjectNode answer = Json.object().put("is_known", true);
        ArrayNode all = answer.putArray("files");
        files.values().forEach(all::add);
        ArrayNode ofDeletes = answer.putArray("deletes");
        deletes.forEach(ofDeletes::add);
        return answer;
    }

    private static ObjectNode file(DataFile file) {
        return Json.object()
                .put("path", file.location())
                .put("format", file.format().name())
                .put("records", file.recordCount())
                .put("size", file.fileSizeInBytes());
    }

    private static FileScanTask task(Table table, DataFile file) {
        PartitionSpec spec = table.specs().get(file.specId());
        return new BaseFileScanTask(
                file.copyWithoutStats(),
                new DeleteFile[0],
                SchemaParser.toJson(table.schema()),
                PartitionSpecParser.toJson(spec),
                ResidualEvaluator.unpartitioned(Expressions.alwaysTrue()));
    }

    /**
     * Copies a file of {@link #files} to the local disk, without its deleted rows; with {@code by_name}, where the
     * table maps names to ids, as a file with ids and with all columns.
     */
    ObjectNode copy(ObjectNode request) throws IOException {
        Table table = tables.existing(request.get("table").asText());
        String path = request.get("path").asText();
        File to = new File(request.get("to").asText());
        boolean isWhole = request.get("whole").asBoolean();
        boolean isByName = request.path("by_name").asBoolean();
        // A driver that has started since knows no plan.
        if ((isWhole || isByName)
                && !isPlanned(table, request)
                && !files(request).get("is_known").asBoolean()) {
            return Json.object().put("is_known", false);
        }
        Planned plan = isPlanned(table, request) ? planned.get(table.name()) : null;
        FileScanTask task = plan == null ? null : plan.tasks.get(path);
        if (task != null && (isByName || !task.deletes().isEmpty())) {
            copyUndeleted(plan.table, task, to);
        } else {
            try (InputStream in = table.io().newInputFile(path).newStream()) {
                Files.copy(in, Path.of(to.getPath()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        boolean isMapped = table.properties().containsKey(TableProperties.DEFAULT_NAME_MAPPING);
        return Json.object().put("is_known", true).put("is_mapped", isMapped);
    }

    private boolean isPlanned(Table table, JsonNode request) {
        Planned plan = planned.get(table.name());
        return plan != null
                && plan.snapshot == request.get("snapshot").asLong()
                && plan.isWhole == request.get("whole").asBoolean();
    }

    private static void copyUndeleted(Table table, FileScanTask task, File to) throws IOException {
        if (task.file().format() != FileFormat.PARQUET) {
            throw new IllegalArgumentException("the file " + task.file().location() + " is not Parquet");
        }
        Schema schema = table.schema();
        GenericDeleteFilter deletes = new GenericDeleteFilter(table.io(), task, schema, schema);
        Schema read = deletes.requiredSchema();
        Map<Integer, ?> constants = PartitionUtil.constantsMap(task, IdentityPartitionConverters::convertConstant);
        Parquet.ReadBuilder reading = Parquet.read(
                        table.io().newInputFile(task.file().location()))
                .project(read)
                .createReaderFunc(found -> GenericParquetReaders.buildReader(read, found, constants));
        String mapping = table.properties().get(TableProperties.DEFAULT_NAME_MAPPING);
        if (mapping != null) {
            reading.withNameMapping(NameMappingParser.fromJson(mapping));
        }
        try (CloseableIterable<Record> rows = reading.build();
                CloseableIterable<Record> kept = deletes.filter(rows);
                FileAppender<Record> out = Parquet.write(org.apache.iceberg.Files.localOutput(to))
                        .schema(schema)
                        .createWriterFunc(GenericParquetWriter::create)
                        .overwrite()
                        .build()) {
            out.addAll(kept);
        }
    }

    private static final class Planned {
        private final Table table;
        private final long snapshot;
        private final boolean isWhole;
        private final Map<String, FileScanTask> tasks = new HashMap<>();

        private Planned(Table table, long snapshot, boolean isWhole) {
            this.table = table;
            this.snapshot = snapshot;
            this.isWhole = isWhole;
        }
    }
}
