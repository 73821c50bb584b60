package org.example;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.ReachableFileUtil;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.parquet.Parquet;

/** What an operator or another engine does with a table: reads it, looks at its files, compacts, expires. */
public final class TableTool {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS");
  private static final DateTimeFormatter TIMESTAMP = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS");
  private static final DateTimeFormatter TIMESTAMPTZ = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSSxxx");

  private TableTool() {}

  /** Do what `action` names with a table, and return an answer for JSON; the catalog has the sink's default name. */
  public static Object run(String action, Map<String, String> catalogProperties, String name, String branch) {
    if (action.matches(HiveLockTool.ACTIONS)) {
      return HiveLockTool.run(action, catalogProperties, name);
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("iceberg", catalogProperties, new Configuration());
    try {
      Table table = catalog.loadTable(TableIdentifier.parse(name));
      return switch (action) {
        case "rows" -> rows(table, branch);
        case "metadata" -> ((HasTableOperations) table).operations().current().metadataFileLocation();
        case "reachable" -> reachable(table);
        case "compact" -> compact(table);
        case "touch" -> touch(table);
        case "expire" -> expire(table);
        default -> throw new IllegalArgumentException("no such action: " + action);
      };
    } finally {
      if (catalog instanceof AutoCloseable closeable) {
        try {
          closeable.close();
        } catch (Exception error) {
          throw new IllegalStateException(error);
        }
      }
    }
  }

  /** The rows with all deletes applied. */
  private static List<Object> rows(Table table, String branch) {
    List<Object> found = new ArrayList<>();
    Snapshot snapshot = table.snapshot(branch);
    if (snapshot == null) {
      return found;
    }
    try (CloseableIterable<Record> rows = IcebergGenerics.read(table).useSnapshot(snapshot.snapshotId()).build()) {
      rows.forEach(row -> found.add(plain(row)));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return found;
  }

  /** The paths of all files that any snapshot has, and of all metadata. */
  private static Set<String> reachable(Table table) {
    Set<String> found = new TreeSet<>(ReachableFileUtil.metadataFileLocations(table, true));
    found.add(ReachableFileUtil.versionHintLocation(table));
    found.addAll(ReachableFileUtil.manifestListLocations(table));
    found.addAll(ReachableFileUtil.statisticsFilesLocations(table));
    for (Snapshot snapshot : table.snapshots()) {
      for (ManifestFile manifest : snapshot.allManifests(table.io())) {
        if (found.add(manifest.path())) {
          found.addAll(paths(table, manifest));
        }
      }
    }
    return found;
  }

  private static List<String> paths(Table table, ManifestFile manifest) {
    List<String> found = new ArrayList<>();
    try (CloseableIterable<? extends ContentFile<?>> files =
        switch (manifest.content()) {
          case DATA -> ManifestFiles.read(manifest, table.io(), table.specs());
          case DELETES -> ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
        }) {
      files.forEach(file -> found.add(file.location()));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return found;
  }

  /** Rewrite all data with its deletes applied, as engines do; return how many files there were. */
  private static int compact(Table table) {
    Snapshot begin = table.currentSnapshot();
    Set<DataFile> old = new HashSet<>();
    Map<PartitionKey, DataWriter<Record>> writers = new HashMap<>();
    PartitionKey key = new PartitionKey(table.spec(), table.schema());
    InternalRecordWrapper wrapped = new InternalRecordWrapper(table.schema().asStruct());
    try (CloseableIterable<FileScanTask> tasks = table.newScan().useSnapshot(begin.snapshotId()).planFiles();
        CloseableIterable<Record> rows = IcebergGenerics.read(table).useSnapshot(begin.snapshotId()).build()) {
      tasks.forEach(task -> old.add(task.file()));
      for (Record row : rows) {
        key.partition(wrapped.wrap(row));
        DataWriter<Record> writer = writers.get(key);
        if (writer == null) {
          PartitionKey own = key.copy();
          writer = writer(table, own);
          writers.put(own, writer);
        }
        writer.write(row);
      }
      Set<DataFile> added = new HashSet<>();
      for (DataWriter<Record> writer : writers.values()) {
        writer.close();
        added.add(writer.toDataFile());
      }
      table.newRewrite().validateFromSnapshot(begin.snapshotId())
          .rewriteFiles(old, added, begin.sequenceNumber()).commit();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return old.size();
  }

  private static DataWriter<Record> writer(Table table, PartitionKey partition) throws IOException {
    String path = table.locationProvider().newDataLocation(table.spec(), partition, "compacted-" + UUID.randomUUID());
    return Parquet.writeData(table.io().newOutputFile(path + ".parquet")).forTable(table)
        .withPartition(partition).createWriterFunc(GenericParquetWriter::create).build();
  }

  /** Commit a property that no other commit sets. */
  private static int touch(Table table) {
    table.updateProperties().set("touched." + UUID.randomUUID(), "").commit();
    return 1;
  }

  /** Keep the current snapshot alone. */
  private static int expire(Table table) {
    table.expireSnapshots().expireOlderThan(Long.MAX_VALUE).retainLast(1).commit();
    return 0;
  }

  /** The value as JSON can tell it: numbers and flags as they are, all else as text. */
  private static Object plain(Object value) {
    if (value instanceof Record record) {
      Map<String, Object> fields = new LinkedHashMap<>();
      record.struct().fields().forEach(each -> fields.put(each.name(), plain(record.getField(each.name()))));
      return fields;
    }
    if (value instanceof List<?> list) {
      return list.stream().map(TableTool::plain).toList();
    }
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream().map(each -> List.of(plain(each.getKey()), plain(each.getValue()))).toList();
    }
    if (value instanceof LocalTime time) {
      return time.format(TIME);
    }
    if (value instanceof LocalDateTime time) {
      return time.format(TIMESTAMP);
    }
    if (value instanceof OffsetDateTime time) {
      return time.format(TIMESTAMPTZ);
    }
    if (value instanceof ByteBuffer bytes) {
      byte[] copied = new byte[bytes.remaining()];
      bytes.duplicate().get(copied);
      return HexFormat.of().formatHex(copied);
    }
    if (value instanceof byte[] bytes) {
      return HexFormat.of().formatHex(bytes);
    }
    boolean isKept = value == null || value instanceof Boolean || value instanceof Number && !(value instanceof BigDecimal);
    return isKept ? value : value.toString();
  }
}
