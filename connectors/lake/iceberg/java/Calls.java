package headrace.lake;

import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs what may block on threads of their own, so that its caller waits no longer than it should.
 *
 * <p>No client of a catalog can be relied upon to end in time: Hive's and JDBC's wait in sockets that heed no interrupt.
 * A call that is given up is interrupted and left. What it still does is bounded by the marks: as what a killed worker
 * has sent.
 */
final class Calls {
    private final ExecutorService threads = Pools.unbounded("lake-call");
    private final Set<Future<?>> running = ConcurrentHashMap.newKeySet();
    /** The limit of a call that has none of its own. */
    final long limitMs;

    Calls(long limitMs) {
        this.limitMs = limitMs;
    }

    /** Returns what the work returns. Throws what it throws; Left if it has not ended in time, or after `cancel`. */
    <T> T within(Callable<T> work) throws Exception {
        return within(limitMs, work);
    }

    /** As `within` for a method that throws nothing that is checked. */
    <T> T bounded(Callable<T> work) {
        try {
            return within(work);
        } catch (RuntimeException error) {
            throw error;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    <T> T within(long milliseconds, Callable<T> work) throws Exception {
        Future<T> call = threads.submit(work);
        running.add(call);
        try {
            return call.get(milliseconds, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof Error) {
                throw (Error) error.getCause();
            }
            throw (Exception) error.getCause();
        } catch (TimeoutException error) {
            throw new Left("no answer came within " + milliseconds / 1000 + " s");
        } catch (CancellationException | InterruptedException error) {
            throw new Left("its end was asked for");
        } finally {
            call.cancel(true);
            running.remove(call);
        }
    }

    /** Makes all callers go on at once. */
    void cancel() {
        running.forEach(one -> one.cancel(true));
    }

    void close() {
        threads.shutdown();
    }

    /** A call that was given up; what it does may still succeed. */
    static final class Left extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private Left(String message) {
            super(message);
        }
    }
}
