package headrace.lake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Closeable;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;

/** One catalog for one task: requests and answers are JSON, so that each is one call over py4j. */
public final class Lake {
    /** Limits of their own. Reading and writing files may take any time: in it only what asks the catalog is bounded. */
    private static final Map<String, Long> LIMITS_MS = Map.of(
            "commit", Long.MAX_VALUE, "files", Long.MAX_VALUE, "copy", Long.MAX_VALUE, "compact", Long.MAX_VALUE,
            "close", 10_000L);

    private volatile Calls calls;
    private Catalog catalog;
    private Tables tables;
    private Pools pools;
    private Commits commits;
    private Scans scans;

    /** Answers with the method's result, or with {@code fault} and {@code message}. */
    public String call(String method, String request, Configuration hadoop) {
        // Classes of Hadoop's make all configurations forget what they have read, and each copy of one that has read
        // nothing parses XML files: such as for each expression that decodes Avro, whenever Spark copies it.
        hadoop.size();
        try {
            ObjectNode told = Json.read(request);
            if (method.equals("open")) {
                calls = new Calls(told.get("limit_ms").asLong());
            }
            if (calls == null) {
                return Json.object().toString(); // there is nothing to cancel, and nothing to close
            }
            if (method.equals("cancel") || method.equals("close")) {
                calls.cancel();
            }
            if (method.equals("cancel")) {
                return Json.object().toString();
            }
            long limitMs = LIMITS_MS.getOrDefault(method, calls.limitMs);
            return calls.within(limitMs, () -> answer(method, told, hadoop)).toString();
        } catch (Throwable error) {
            return Faults.of(error).toString();
        }
    }

    private ObjectNode answer(String method, ObjectNode request, Configuration hadoop) throws Exception {
        switch (method) {
            case "open":
                open(request, hadoop);
                return Json.object();
            case "load":
                Table found = tables.find(request.get("table").asText());
                return found == null ? Json.object() : tables.state(found, branch(request));
            case "create":
                return tables.state(tables.create(request), branch(request));
            case "evolve":
                return tables.state(tables.evolve(request), branch(request));
            case "marks":
                return commits.marks(request.get("table").asText(), branch(request));
            case "set_marks":
                commits.setMarks(request, branch(request));
                return Json.object();
            case "commit":
                return commit(request);
            case "snapshots":
                return scans.snapshots(request, branch(request));
            case "files":
                return scans.files(request);
            case "copy":
                return scans.copy(request);
            case "compact":
                return commits.compact(request, branch(request));
            case "close":
                close();
                return Json.object();
            default:
                throw new IllegalArgumentException("no method " + method);
        }
    }

    private void open(ObjectNode request, Configuration given) throws IOException {
        Configuration conf = new Configuration(given);
        conf.setClassLoader(Lake.class.getClassLoader());
        Json.texts(request.get("hadoop_files")).forEach(file -> conf.addResource(new Path("file", null, file)));
        Json.strings(request.get("hadoop")).forEach(conf::set);
        Places places = new Places(conf, Json.texts(request.get("allowed_paths")));
        Map<String, String> properties = Json.strings(request.get("properties"));
        if (properties.getOrDefault("warehouse", "").startsWith("/")) {
            places.check(properties.get("warehouse")); // only here it is known if it is a local folder
        }
        catalog = CatalogUtil.buildIcebergCatalog(request.get("catalog").asText(), properties, conf);
        tables = new Tables(catalog, calls);
        pools = new Pools(request.get("threads").asInt());
        scans = new Scans(tables);
        commits = new Commits(tables, calls, new Uploads(pools, places), places, request);
        if (Thread.interrupted()) {
            close(); // nobody waits for it any more
        }
    }

    /** Commits to several tables at once; a fault of one leaves the others alone. */
    private ObjectNode commit(ObjectNode request) throws InterruptedException {
        Map<String, Future<ObjectNode>> running = new LinkedHashMap<>();
        for (JsonNode one : request.get("tables")) {
            running.put(one.get("table").asText(), pools.tables.submit(attempt(() -> commits.commit(one, branch(one)))));
        }
        ObjectNode answers = Json.object();
        try {
            for (Map.Entry<String, Future<ObjectNode>> one : running.entrySet()) {
                answers.set(one.getKey(), one.getValue().get());
            }
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause());
        } finally {
            running.values().forEach(one -> one.cancel(true)); // does nothing unless this thread was interrupted
        }
        return answers;
    }

    private static Callable<ObjectNode> attempt(Callable<ObjectNode> commit) {
        return () -> {
            try {
                return commit.call();
            } catch (Throwable error) {
                return Faults.of(error);
            }
        };
    }

    private static String branch(JsonNode request) {
        return request.path("branch").asText("main");
    }

    private void close() throws IOException {
        calls.close();
        if (commits != null) {
            commits.close();
            pools.close();
        }
        if (catalog instanceof Closeable) {
            ((Closeable) catalog).close();
        }
    }
}
