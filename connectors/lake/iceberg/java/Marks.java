package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.util.SnapshotUtil;

/**
 * The offsets that one connector's records have reached in one branch of a table.
 *
 * <p>They are an object by topic id: {@code {"<id>": {"topic": "t", "offsets": {"0": 12}}}}. The newest snapshot of the
 * branch that has them counts, so that a rollback takes them back. Snapshots expire: a property has a copy, with the
 * sequence number that the table had before, and counts only if the oldest snapshot that is left came later.
 */
final class Marks {
    private final String key;
    private final String branch;

    Marks(String connector, String branch) {
        this.key = "headrace.offsets." + connector;
        this.branch = branch;
    }

    String key() {
        return key;
    }

    /** The marks of a table as it was loaded. */
    ObjectNode of(Table table) {
        TableMetadata metadata = Tables.metadata(table);
        Snapshot head = SnapshotUtil.latestSnapshot(metadata, branch);
        Iterable<Snapshot> ancestry =
                head == null ? List.of() : SnapshotUtil.ancestorsOf(head.snapshotId(), metadata::snapshot);
        return of(ancestry, metadata.properties(), metadata.refs());
    }

    /** The marks of a branch with these snapshots, the newest first. */
    ObjectNode of(Iterable<Snapshot> ancestry, Map<String, String> properties, Map<String, SnapshotRef> refs) {
        Snapshot oldest = null;
        for (Snapshot one : ancestry) {
            String text = one.summary() == null ? null : one.summary().get(key);
            if (text != null) {
                return Json.read(text);
            }
            oldest = one;
        }
        String kept = properties.get(property(refs));
        if (oldest == null || oldest.parentId() == null || kept == null) {
            return Json.object();
        }
        ObjectNode copy = Json.read(kept);
        long number = oldest.sequenceNumber();
        boolean isLater = number == 0 || number > copy.path("after").asLong();
        return isLater ? (ObjectNode) copy.get("offsets") : Json.object();
    }

    /** Sets the property; in the transaction whose last snapshot has these marks. */
    void keep(UpdateProperties update, TableMetadata before, ObjectNode marks) {
        ObjectNode copy = Json.object().put("after", before.lastSequenceNumber());
        copy.set("offsets", marks);
        update.set(key + "." + branch, copy.toString());
    }

    /** A branch that is not there yet begins as the main one. */
    private String property(Map<String, SnapshotRef> refs) {
        return key + "." + (refs.containsKey(branch) ? branch : SnapshotRef.MAIN_BRANCH);
    }

    /** True if each of these partitions has this mark; null: none. */
    static boolean hold(ObjectNode marks, JsonNode begins) {
        for (Map.Entry<String, JsonNode> topic : begins.properties()) {
            JsonNode known = marks.path(topic.getKey()).path("offsets");
            for (Map.Entry<String, JsonNode> one : topic.getValue().path("offsets").properties()) {
                JsonNode mark = known.path(one.getKey());
                boolean isSame = one.getValue().isNull()
                        ? mark.isMissingNode()
                        : mark.isNumber() && mark.asLong() == one.getValue().asLong();
                if (!isSame) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The marks after these partitions have moved. A topic that was made again replaces its former self. */
    static ObjectNode moved(ObjectNode marks, JsonNode positions) {
        ObjectNode moved = marks.deepCopy();
        positions.properties().forEach(topic -> {
            String id = topic.getKey();
            JsonNode name = topic.getValue().path("topic");
            forget(moved, name, id);
            ObjectNode known = moved.withObjectProperty(id);
            known.set("topic", name);
            known.withObjectProperty("offsets").setAll((ObjectNode) topic.getValue().path("offsets"));
        });
        return moved;
    }

    /** The marks with exactly these of the topics that are named. */
    static ObjectNode replaced(ObjectNode marks, JsonNode topics) {
        ObjectNode replaced = marks.deepCopy();
        topics.properties().forEach(topic -> {
            forget(replaced, topic.getValue().path("topic"), "");
            if (!topic.getValue().path("offsets").isEmpty()) {
                replaced.set(topic.getKey(), topic.getValue());
            }
        });
        return replaced;
    }

    private static void forget(ObjectNode marks, JsonNode topic, String but) {
        for (Iterator<Map.Entry<String, JsonNode>> each = marks.properties().iterator(); each.hasNext(); ) {
            Map.Entry<String, JsonNode> one = each.next();
            if (!one.getKey().equals(but) && one.getValue().path("topic").equals(topic)) {
                each.remove();
            }
        }
    }
}
