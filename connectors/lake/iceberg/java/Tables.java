package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.iceberg.BaseMetastoreCatalog;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.hive.HiveCatalog;
import org.apache.iceberg.hive.HiveTableOperations;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.SnapshotUtil;

/** Tables of a catalog and their metadata. */
final class Tables {
    private static final int ATTEMPTS = 20;

    private final Catalog catalog;
    private final Calls calls;

    Tables(Catalog catalog, Calls calls) {
        this.catalog = catalog;
        this.calls = calls;
    }

    static TableMetadata metadata(Table table) {
        return ((HasTableOperations) table).operations().current();
    }

    /** The table, or null. */
    Table find(String name) {
        try {
            return existing(name);
        } catch (NoSuchTableException | NoSuchNamespaceException error) {
            return null;
        }
    }

    Table existing(String name) {
        return calls.bounded(() -> HiveLocks.told(catalog.loadTable(TableIdentifier.parse(name))));
    }

    Table create(ObjectNode request) {
        TableIdentifier id = TableIdentifier.parse(request.get("table").asText());
        Schema schema = SchemaParser.fromJson(request.get("schema").toString());
        PartitionSpec spec = spec(schema, request.get("spec").toString());
        createNamespaces(id.namespace());
        Catalog.TableBuilder builder = catalog.buildTable(id, schema)
                .withPartitionSpec(spec)
                .withProperties(Json.strings(request.get("properties")));
        try {
            if (!(catalog instanceof BaseMetastoreCatalog)) {
                return builder.create();
            }
            // By `create` such a catalog says that another was quicker whenever it fails, and drops the reason.
            builder.createTransaction().commitTransaction();
            return existing(id.toString());
        } catch (AlreadyExistsException | CommitFailedException error) {
            Table made = find(id.toString());
            if (made != null) {
                return made;
            }
            RuntimeException reason = catalog instanceof HiveCatalog && error instanceof CommitFailedException
                    ? HiveLocks.reason(
                            (CommitFailedException) error, (HiveTableOperations) ((HiveCatalog) catalog).newTableOps(id))
                    : error;
            throw reason instanceof HiveLocks.NoLock
                    ? reason
                    : new IllegalStateException("the catalog did not make the table: " + Faults.message(reason));
        }
    }

    private static PartitionSpec spec(Schema schema, String told) {
        try {
            return PartitionSpecParser.fromJson(schema, told);
        } catch (IllegalArgumentException | ValidationException error) {
            throw new WrongPartition(error);
        }
    }

    /** Partitions that the columns of a new table cannot have. */
    static final class WrongPartition extends IllegalArgumentException {
        private static final long serialVersionUID = 1L;

        private WrongPartition(RuntimeException cause) {
            super(cause.getMessage(), cause);
        }
    }

    private void createNamespaces(Namespace of) {
        if (!(catalog instanceof SupportsNamespaces) || of.isEmpty()) {
            return;
        }
        SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
        for (int level = 1; level <= of.length(); level++) {
            Namespace one = Namespace.of(Arrays.copyOf(of.levels(), level));
            if (!namespaces.namespaceExists(one)) {
                try {
                    namespaces.createNamespace(one);
                } catch (AlreadyExistsException error) {
                    continue; // another task was quicker
                }
            }
        }
    }

    Table evolve(ObjectNode request) {
        return changed(request.get("table").asText(), table -> {
            UpdateSchema update = table.updateSchema();
            boolean changes = false;
            for (JsonNode one : request.get("changes")) {
                changes |= change(table.schema(), update, one);
            }
            if (changes) {
                update.commit();
            }
            return table;
        });
    }

    /** The id of a spec without fields; adds one to a table that has none. */
    int unpartitioned(String name) {
        Table table = changed(name, one -> {
            if (unpartitioned(one) == null) {
                UpdatePartitionSpec update = one.updateSpec();
                one.spec().fields().forEach(field -> update.removeField(field.name()));
                update.addNonDefaultSpec().commit();
            }
            return one;
        });
        Integer found = unpartitioned(table);
        if (found == null) {
            throw new IllegalArgumentException("the table " + name + " cannot have files that are of no partition");
        }
        return found;
    }

    /** Loads the table and changes it, again if another writer was quicker. */
    private Table changed(String name, UnaryOperator<Table> change) {
        for (int attempt = 1; ; attempt++) {
            try {
                return change.apply(existing(name));
            } catch (CommitFailedException error) {
                if (attempt == ATTEMPTS) {
                    throw error;
                }
            }
        }
    }

    /** Adds a change to the update; false if the table has it already. */
    private static boolean change(Schema schema, UpdateSchema update, JsonNode change) {
        String path = String.join(".", Json.texts(change.get("path")));
        Types.NestedField known = schema.findField(path);
        Type type = change.has("schema")
                ? SchemaParser.fromJson(change.get("schema").toString()).columns().get(0).type()
                : null;
        String kind = change.get("change").asText();
        if (known == null) {
            if (!kind.equals("add")) {
                throw new IllegalArgumentException("there is no column " + path);
            }
            String parent = String.join(".", Json.texts(change.get("parent")));
            update.addColumn(parent.isEmpty() ? null : parent, change.get("name").asText(), type);
            return true;
        }
        if (kind.equals("optional")) {
            if (known.isRequired()) {
                update.makeColumnOptional(path);
            }
            return known.isRequired();
        }
        if (takes(known.type(), type)) {
            return false;
        }
        if (kind.equals("widen") && known.type().isPrimitiveType() && type.isPrimitiveType()
                && TypeUtil.isPromotionAllowed(known.type(), type.asPrimitiveType())) {
            update.updateColumn(path, type.asPrimitiveType());
            return true;
        }
        throw new IllegalArgumentException("the column " + path + " is " + known.type() + ", and cannot be " + type);
    }

    /** True if a column of a type holds all values of another; fields of structs are changed one by one. */
    private static boolean takes(Type known, Type type) {
        if (known.isPrimitiveType() && type.isPrimitiveType()) {
            return TypeUtil.isPromotionAllowed(type, known.asPrimitiveType());
        }
        return known.typeId() == type.typeId();
    }

    /** The metadata as `tables.TableState` has it. */
    ObjectNode state(Table table, String branch) {
        TableMetadata metadata = metadata(table);
        ObjectNode state = Json.object()
                .put("uuid", metadata.uuid())
                .put("format_version", metadata.formatVersion())
                .put("location", metadata.location())
                .put("schema_id", metadata.currentSchemaId())
                .put("is_empty", isEmpty(SnapshotUtil.latestSnapshot(metadata, branch)));
        state.set("schema", Json.read(SchemaParser.toJson(metadata.schema())));
        state.set("spec", Json.read(PartitionSpecParser.toJson(metadata.spec())));
        ArrayNode identifier = state.putArray("identifier");
        metadata.schema().identifierFieldIds().stream().sorted()
                .forEach(id -> identifier.add(metadata.schema().findColumnName(id)));
        ObjectNode properties = state.putObject("properties");
        metadata.properties().forEach(properties::put);
        state.put("unpartitioned_spec", unpartitioned(table));
        state.put("other_specs", table.specs().size() > 1);
        ObjectNode reached = state.putObject("reached");
        table.io().properties().forEach((key, value) -> {
            if (value != null && value.contains("://")) {
                reached.put(key, value);
            }
        });
        return state;
    }

    private static Integer unpartitioned(Table table) {
        return table.specs().values().stream()
                .filter(spec -> spec.fields().isEmpty())
                .map(PartitionSpec::specId)
                .findFirst()
                .orElse(null);
    }

    private static boolean isEmpty(Snapshot head) {
        Map<String, String> summary = head == null ? null : head.summary();
        return head == null || summary != null && "0".equals(summary.get(SnapshotSummary.TOTAL_DATA_FILES_PROP));
    }
}
