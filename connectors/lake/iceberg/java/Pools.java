package headrace.lake;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The threads of one catalog; idle ones end. */
final class Pools {
    private static final int UPLOADS = 8;
    private static final long IDLE_S = 30;

    /** Commits of tables, which wait for files: the files need threads of their own. */
    final ExecutorService tables;

    private final ExecutorService files;

    Pools(int tables) {
        this.tables = pool("lake-commit", tables);
        this.files = pool("lake-upload", UPLOADS);
    }

    /** Waits for all calls, then throws the first one's exception if one failed. */
    <T> List<T> all(List<Callable<T>> calls) throws Exception {
        List<T> results = new ArrayList<>();
        Exception failed = null;
        for (Future<T> one : files.invokeAll(calls)) {
            try {
                results.add(one.get());
            } catch (ExecutionException error) {
                Exception cause = error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
                failed = failed == null ? cause : failed;
            }
        }
        if (failed != null) {
            throw failed;
        }
        return results;
    }

    /** Threads as many as are needed at once. */
    static ExecutorService unbounded(String name) {
        return new ThreadPoolExecutor(
                0, Integer.MAX_VALUE, IDLE_S, TimeUnit.SECONDS, new SynchronousQueue<>(), factory(name));
    }

    void close() {
        tables.shutdown();
        files.shutdown();
    }

    private static ExecutorService pool(String name, int size) {
        ThreadPoolExecutor made =
                new ThreadPoolExecutor(size, size, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), factory(name));
        made.allowCoreThreadTimeOut(true);
        return made;
    }

    private static ThreadFactory factory(String name) {
        return run -> {
            Thread thread = new Thread(run, name);
            thread.setDaemon(true);
            // Iceberg finds catalogs, FileIO and drivers by it.
            thread.setContextClassLoader(Pools.class.getClassLoader());
            return thread;
        };
    }
}
