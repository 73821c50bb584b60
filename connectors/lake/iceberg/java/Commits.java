package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.CommitStateUnknownException;

/** The commits of one task: each brings files to a table, and moves the marks with them. */
final class Commits {
    private final Tables tables;
    private final Calls calls;
    private final Uploads uploads;
    private final Places places;
    private final String connector;
    private final String task;
    private final Intents intents;
    private final Rewriting rewriting = new Rewriting();
    /** Partitions of tables that were committed before: their former owner's files have been looked for. */
    private final Set<String> met = ConcurrentHashMap.newKeySet();

    Commits(Tables tables, Calls calls, Uploads uploads, Places places, ObjectNode request) {
        this.tables = tables;
        this.calls = calls;
        this.uploads = uploads;
        this.places = places;
        this.connector = request.get("connector").asText();
        this.task = connector + "-" + request.get("task").asText();
        this.intents = new Intents(connector, places);
    }

    ObjectNode marks(String table, String branch) {
        return new Marks(connector, branch).of(tables.existing(table));
    }

    /** Replaces the marks of the topics that are named. */
    void setMarks(ObjectNode request, String branch) throws Exception {
        change(tables.existing(request.get("table").asText()), branch, UUID.randomUUID().toString())
                .apply(marks -> Marks.replaced(marks, request.get("topics")), List.of());
    }

    /** Commits to one table; {@code committed} is false if its marks have moved, or another table has its name. */
    ObjectNode commit(JsonNode request, String branch) throws Exception {
        ObjectNode answer = Json.object();
        String name = request.get("table").asText();
        JsonNode parts = request.get("parts");
        int unpartitioned = has(parts, file -> file.get("spec_id").asInt() < 0)
                ? calls.within(() -> tables.unpartitioned(name))
                : -1;
        Table table = tables.existing(name);
        if (!isSame(table, parts) || !Marks.hold(new Marks(connector, branch).of(table), request.get("begins"))) {
            return answer.put("committed", false);
        }
        if (has(parts, Commits::isDelete) && Tables.metadata(table).formatVersion() < 2) {
            throw new IllegalArgumentException("it has format version 1, in which rows cannot be deleted: set its"
                    + " property format-version to 2, or turn upserts off");
        }
        String commit = UUID.randomUUID().toString();
        String prefix = "headrace-" + task.replaceAll("[^\\w.-]", "_") + "-" + commit;
        List<Uploads.Upload> planned = Uploads.plan(table, parts, unpartitioned, prefix);
        answer.put("committed", bring(table, request, change(table, branch, commit), planned));
        if (answer.get("committed").asBoolean() && isNew(name, request.get("positions"))) {
            sweep(table, answer);
        }
        return answer;
    }

    /** Replaces small files of a table, and forgets its old snapshots. */
    ObjectNode compact(ObjectNode request, String branch) throws IOException {
        Table table = tables.existing(request.get("table").asText());
        Compaction compaction = new Compaction(rewriting, intents, places, task);
        int files = request.get("files").asInt();
        int replaced = files == 0 ? 0 : compaction.run(table, branch, files, request.get("bytes").asLong());
        long age = request.get("snapshots_ms").asLong();
        table.refresh();
        int expired = age == 0 ? 0 : compaction.expire(table, System.currentTimeMillis() - age);
        return Json.object().put("replaced", replaced).put("expired", expired);
    }

    void close() {
        rewriting.close();
    }

    /** Looks for files that former owners of the partitions have left; rows go on if that fails. */
    private void sweep(Table table, ObjectNode answer) {
        try {
            calls.bounded(() -> {
                table.refresh();
                return table;
            });
            intents.sweep(table);
        } catch (RuntimeException error) {
            met.clear(); // the next commit looks again
            answer.put("left", Faults.of(error).get("message").asText());
        }
    }

    /** Uploads and commits. If that is in vain for sure, deletes what was uploaded. */
    private boolean bring(Table table, JsonNode request, Change change, List<Uploads.Upload> planned)
            throws Exception {
        List<String> locations = planned.stream().map(one -> one.location).toList();
        String intent = intents.write(table, change, request.get("begins"), locations);
        boolean isIn = false;
        boolean isKnown = true;
        try {
            List<ContentFile<?>> files = uploads.upload(table, planned);
            isIn = change.apply(
                    marks -> Marks.hold(marks, request.get("begins"))
                            ? Marks.moved(marks, request.get("positions"))
                            : null,
                    snapshots(planned, files, has(request.get("parts"), Commits::isDelete)));
            return isIn;
        } catch (CommitStateUnknownException error) {
            isKnown = false;
            met.clear(); // the next commit deletes the files, if they are not in the table then
            throw error;
        } finally {
            if (isKnown && (isIn || Uploads.delete(table.io(), locations))) {
                intents.delete(table, intent);
            }
        }
    }

    private Change change(Table table, String branch, String commit) {
        return new Change(table, calls, new Marks(connector, branch), branch, task, commit);
    }

    /** The files of each snapshot: those of a part if there are deletes, which touch older snapshots only. */
    private static List<List<ContentFile<?>>> snapshots(
            List<Uploads.Upload> planned, List<ContentFile<?>> files, boolean hasDeletes) {
        List<List<ContentFile<?>>> snapshots = new ArrayList<>();
        int part = -1;
        for (int at = 0; at < files.size(); at++) {
            if (snapshots.isEmpty() || hasDeletes && planned.get(at).part != part) {
                snapshots.add(new ArrayList<>());
            }
            part = planned.get(at).part;
            snapshots.get(snapshots.size() - 1).add(files.get(at));
        }
        return snapshots;
    }

    private boolean isNew(String table, JsonNode positions) {
        boolean isNew = false;
        for (var topic : positions.properties()) {
            for (var one : topic.getValue().get("offsets").properties()) {
                isNew |= met.add(table + " " + topic.getKey() + " " + one.getKey());
            }
        }
        return isNew;
    }

    private static boolean isSame(Table table, JsonNode parts) {
        for (JsonNode part : parts) {
            if (!part.get("uuid").asText().equals(Tables.metadata(table).uuid())) {
                return false;
            }
        }
        return true;
    }

    private static boolean isDelete(JsonNode file) {
        return !file.get("content").asText().equals("data");
    }

    private static boolean has(JsonNode parts, Predicate<JsonNode> such) {
        for (JsonNode part : parts) {
            for (JsonNode file : part.get("files")) {
                if (such.test(file)) {
                    return true;
                }
            }
        }
        return false;
    }
}
