package headrace.lake;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.data.GenericDeleteFilter;
import org.apache.iceberg.data.IdentityPartitionConverters;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetReaders;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.util.PartitionUtil;

/** Copies the rows of files that are not deleted into one new file; holds a row group at a time. */
final class Rewriting {
    private static final String ROW_GROUP_BYTES = String.valueOf(16 << 20);

    private volatile boolean isClosing;

    /** Ends what is being written, with an exception. */
    void close() {
        isClosing = true;
    }

    DataFile write(Table table, List<FileScanTask> tasks, String location) throws IOException {
        boolean hasLineage = Tables.metadata(table).formatVersion() >= 3;
        Schema schema = hasLineage ? MetadataColumns.schemaWithRowLineage(table.schema()) : table.schema();
        FileScanTask like = tasks.get(0);
        DataWriter<Record> writer = Parquet.writeData(table.io().newOutputFile(location))
                .forTable(table)
                .schema(schema)
                .set(TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES, ROW_GROUP_BYTES)
                .createWriterFunc(GenericParquetWriter::create)
                .withSpec(like.spec())
                .withPartition(like.partition())
                .overwrite()
                .build();
        try (writer) {
            for (FileScanTask task : tasks) {
                copy(table, schema, task, writer);
            }
        }
        return writer.toDataFile();
    }

    private void copy(Table table, Schema schema, FileScanTask task, DataWriter<Record> writer) throws IOException {
        GenericDeleteFilter deletes = new GenericDeleteFilter(table.io(), task, table.schema(), schema);
        Schema read = deletes.requiredSchema();
        Map<Integer, ?> constants = PartitionUtil.constantsMap(task, IdentityPartitionConverters::convertConstant);
        Parquet.ReadBuilder builder = Parquet.read(table.io().newInputFile(task.file().location()))
                .project(read)
                .createReaderFunc(file -> GenericParquetReaders.buildReader(read, file, constants));
        String mapping = table.properties().get(TableProperties.DEFAULT_NAME_MAPPING);
        if (mapping != null) {
            builder.withNameMapping(NameMappingParser.fromJson(mapping));
        }
        try (CloseableIterable<Record> rows = deletes.filter(builder.build())) {
            for (Record row : rows) {
                if (isClosing) {
                    throw new IllegalStateException("the task ends");
                }
                writer.write(row);
            }
        }
    }
}
