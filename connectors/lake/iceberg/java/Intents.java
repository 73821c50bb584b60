package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SupportsPrefixOperations;

/**
 * Small files in a table's metadata folder, each with the files that a commit is about to upload.
 *
 * <p>One is left behind if its process dies. Its commit can succeed only as long as the table has the marks that it was
 * made for; afterwards those of its files that no snapshot has are deleted, and nothing else ever is.
 */
final class Intents {
    static final String COMMIT_ID = "kafka.connect.commit-id";

    private final String connector;
    private final Places places;

    Intents(String connector, Places places) {
        this.connector = connector;
        this.places = places;
    }

    /** True if the commit with this id made the snapshot. */
    static boolean isOf(Snapshot snapshot, String commit) {
        return snapshot.summary() != null && commit.equals(snapshot.summary().get(COMMIT_ID));
    }

    /** Writes down what a commit is about to upload; returns the file's location, null if it uploads nothing. */
    String write(Table table, Change change, JsonNode begins, List<String> locations) {
        if (locations.isEmpty()) {
            return null;
        }
        ObjectNode intent = Json.object()
                .put("commit", change.id)
                .put("branch", change.branch)
                .put("after", Tables.metadata(table).lastSequenceNumber());
        intent.set("begins", begins);
        return write(table, change.id, intent, locations);
    }

    /** As the other, for a commit that does not depend on marks, and is given up before this time. */
    String write(Table table, String id, long until, String location) {
        ObjectNode intent = Json.object()
                .put("commit", id)
                .put("until", until)
                .put("after", 0);
        return write(table, id, intent, List.of(location));
    }

    private String write(Table table, String id, ObjectNode intent, List<String> locations) {
        ArrayNode files = intent.putArray("files");
        locations.forEach(files::add);
        intent.put("connector", connector);
        String location = folder(table) + id + ".json";
        try (PositionOutputStream out = table.io().newOutputFile(location).create()) {
            out.write(intent.toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return location;
    }

    void delete(Table table, String location) {
        if (location != null) {
            Uploads.delete(table.io(), List.of(location));
        }
    }

    /** Deletes what commits that cannot succeed any more have left behind. */
    void sweep(Table table) {
        for (String location : listed(table)) {
            ObjectNode intent = read(table.io(), location);
            // The folders of two connectors may have one name, as not all characters are in it.
            if (intent == null || !intent.path("connector").asText(connector).equals(connector)) {
                continue;
            }
            if (!mayCome(table, intent)
                    && Uploads.delete(table.io(), orphans(table, intent))) {
                delete(table, location);
            }
        }
    }

    private boolean mayCome(Table table, ObjectNode intent) {
        if (intent.has("until")) {
            return System.currentTimeMillis() < intent.get("until").asLong();
        }
        Marks marks = new Marks(connector, intent.get("branch").asText());
        return Marks.hold(marks.of(table), intent.get("begins"));
    }

    /** Those of an intent's files that no snapshot has. */
    private Set<String> orphans(Table table, ObjectNode intent) {
        Set<String> orphans = new HashSet<>(Json.texts(intent.get("files")));
        orphans.removeIf(location -> !places.isAllowed(location)); // whoever can write to the table wrote this
        String commit = intent.get("commit").asText();
        Set<String> looked = new HashSet<>();
        for (Snapshot snapshot : table.snapshots()) {
            if (isOf(snapshot, commit)) {
                return Set.of();
            }
        }
        for (Snapshot snapshot : table.snapshots()) {
            for (ManifestFile manifest : snapshot.allManifests(table.io())) {
                boolean isLater = manifest.sequenceNumber() == 0
                        || manifest.sequenceNumber() > intent.get("after").asLong();
                if (isLater && !orphans.isEmpty() && looked.add(manifest.path())) {
                    remove(table, manifest, orphans);
                }
            }
        }
        return orphans;
    }

    private static void remove(Table table, ManifestFile manifest, Set<String> orphans) {
        try (ManifestReader<? extends ContentFile<?>> files = manifest.content() == ManifestContent.DATA
                ? ManifestFiles.read(manifest, table.io(), table.specs())
                : ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
            files.select(List.of("file_path")).forEach(one -> orphans.remove(one.location()));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private List<String> listed(Table table) {
        if (!(table.io() instanceof SupportsPrefixOperations)) {
            throw new IllegalArgumentException(table.io().getClass().getName() + " cannot list files, which is needed"
                    + " to find those of killed workers");
        }
        List<String> found = new ArrayList<>();
        try {
            for (FileInfo one : ((SupportsPrefixOperations) table.io()).listPrefix(folder(table))) {
                found.add(one.location());
            }
        } catch (NotFoundException error) {
            return found;
        } catch (UncheckedIOException error) {
            if (!(error.getCause() instanceof FileNotFoundException)) {
                throw error;
            }
        }
        return found;
    }

    /** The intent; null if its owner has deleted it meanwhile, or died as it wrote it. */
    private static ObjectNode read(FileIO io, String location) {
        try (InputStream in = io.newInputFile(location).newStream()) {
            String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            return text.endsWith("}") ? Json.read(text) : null;
        } catch (NotFoundException error) {
            return null;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private String folder(Table table) {
        String name = "headrace-" + connector.replaceAll("[^\\w.-]", "_") + "/";
        String inside = ((HasTableOperations) table).operations().metadataFileLocation(name + "x");
        return inside.substring(0, inside.length() - 1); // ends with the slash: object stores list prefixes of names
    }
}
