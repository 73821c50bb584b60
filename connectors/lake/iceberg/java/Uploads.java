package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.shaded.org.apache.parquet.ParquetReadOptions;
import org.apache.iceberg.shaded.org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.io.LocalInputFile;
import org.apache.iceberg.types.Types;

/** Brings local Parquet files to where a table's files are. */
final class Uploads {
    private final Pools pools;
    private final Places places;

    Uploads(Pools pools, Places places) {
        this.pools = pools;
        this.places = places;
    }

    /** A local file and its place in the table. */
    static final class Upload {
        private final JsonNode file;
        private final PartitionSpec spec;
        private final PartitionData partition;
        final String location;
        final int part;

        private Upload(JsonNode file, int part, PartitionSpec spec, PartitionData partition, String location) {
            this.file = file;
            this.part = part;
            this.spec = spec;
            this.partition = partition;
            this.location = location;
        }
    }

    /** Names the places of all files of all parts; does nothing to them. */
    static List<Upload> plan(Table table, JsonNode parts, int unpartitioned, String prefix) {
        List<Upload> planned = new ArrayList<>();
        for (int part = 0; part < parts.size(); part++) {
            for (JsonNode file : parts.get(part).get("files")) {
                int specId = file.get("spec_id").asInt();
                PartitionSpec spec = table.specs().get(specId < 0 ? unpartitioned : specId);
                if (spec == null) {
                    throw new IllegalArgumentException("the table has no partition spec " + specId);
                }
                String name = prefix + "-" + planned.size() + ".parquet";
                PartitionData values = values(spec, file.get("partition"));
                String location = spec.isUnpartitioned()
                        ? table.locationProvider().newDataLocation(name)
                        : table.locationProvider().newDataLocation(spec, values, name);
                planned.add(new Upload(file, part, spec, values, location));
            }
        }
        return planned;
    }

    private static PartitionData values(PartitionSpec spec, JsonNode given) {
        PartitionData values = new PartitionData(spec.partitionType());
        List<Types.NestedField> fields = spec.partitionType().fields();
        if (given.size() != fields.size()) {
            throw new IllegalArgumentException(
                    "a file has " + given.size() + " partition values, its spec has " + fields.size() + " fields");
        }
        for (int at = 0; at < fields.size(); at++) {
            JsonNode value = given.get(at);
            values.set(at, value.isNull() ? null : SingleValueParser.fromJson(fields.get(at).type(), value.toString()));
        }
        return values;
    }

    /** Uploads all of them, and describes them as the table's manifests do; the local files may be gone after. */
    List<ContentFile<?>> upload(Table table, List<Upload> planned) throws Exception {
        MetricsConfig config = MetricsConfig.forTable(table);
        List<Callable<ContentFile<?>>> calls = new ArrayList<>();
        for (Upload one : planned) {
            calls.add(() -> upload(table.io(), config, one));
        }
        return pools.all(calls);
    }

    private ContentFile<?> upload(FileIO io, MetricsConfig config, Upload one) throws IOException {
        Path local = Path.of(one.file.get("local").asText());
        Metrics metrics = metrics(local, config);
        long size = Files.size(local);
        if (metrics.recordCount() != one.file.get("records").asLong()) {
            throw new IllegalStateException("a file has " + metrics.recordCount() + " records, and was told to have "
                    + one.file.get("records"));
        }
        bring(local, one.location, io);
        if (one.file.get("content").asText().equals("data")) {
            return DataFiles.builder(one.spec)
                    .withPath(one.location)
                    .withFormat(FileFormat.PARQUET)
                    .withFileSizeInBytes(size)
                    .withPartition(one.partition)
                    .withMetrics(metrics)
                    .build();
        }
        List<Integer> ids = new ArrayList<>();
        one.file.get("equality_ids").forEach(id -> ids.add(id.asInt()));
        return FileMetadata.deleteFileBuilder(one.spec)
                .ofEqualityDeletes(ids.stream().mapToInt(Integer::intValue).toArray())
                .withPath(one.location)
                .withFormat(FileFormat.PARQUET)
                .withFileSizeInBytes(size)
                .withPartition(one.partition)
                .withMetrics(metrics)
                .build();
    }

    /** As ParquetUtil.fileMetrics, which has Hadoop's XML files parsed for each file. */
    private static Metrics metrics(Path local, MetricsConfig config) throws IOException {
        ParquetReadOptions options = ParquetReadOptions.builder(new PlainParquetConfiguration()).build();
        try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(local), options)) {
            return ParquetUtil.footerMetrics(reader.getFooter(), Stream.empty(), config);
        }
    }

    private void bring(Path local, String location, FileIO io) throws IOException {
        Path target = places.local(location);
        if (target != null) {
            places.check(location);
            Files.createDirectories(target.getParent());
            Files.move(local, target);
            return;
        }
        try (PositionOutputStream out = io.newOutputFile(location).create()) {
            Files.copy(local, out);
        }
    }

    /** Deletes files of a commit that is not in the table; false if some may be left. */
    static boolean delete(FileIO io, Collection<String> locations) {
        boolean isDone = true;
        for (String one : locations) {
            try {
                io.deleteFile(one);
            } catch (NotFoundException error) {
                continue; // it was never written
            } catch (RuntimeException error) {
                isDone = false;
            }
        }
        return isDone;
    }
}
