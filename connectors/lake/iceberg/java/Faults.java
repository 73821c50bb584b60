package headrace.lake;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.sql.SQLException;
import java.sql.SQLNonTransientException;
import org.apache.hadoop.security.AccessControlException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.RESTException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.exceptions.ServiceUnavailableException;

/** Sorts exceptions by what the caller can do. */
final class Faults {
    private static final int DEPTH = 20;

    private Faults() {}

    static ObjectNode of(Throwable error) {
        String fault = "refused";
        int depth = 0;
        for (Throwable one = error; one != null && depth < DEPTH; one = one.getCause(), depth++) {
            String kind = kind(one);
            fault = kind == null ? fault : kind;
            // What is behind an unknown outcome may say that another try is in vain.
            if (kind != null && !(one instanceof CommitStateUnknownException)) {
                break;
            }
        }
        return Json.object().put("fault", fault).put("message", message(error));
    }

    private static String kind(Throwable one) {
        if (one instanceof NoSuchTableException || one instanceof NoSuchNamespaceException) {
            return "missing";
        }
        if (one instanceof Tables.WrongPartition) {
            return "partition";
        }
        if (one instanceof HiveLocks.NoLock) {
            return ((HiveLocks.NoLock) one).isHeld ? "retry" : "lock";
        }
        if (one instanceof NotAuthorizedException) {
            return "login";
        }
        if (one instanceof ForbiddenException || one instanceof AccessControlException
                || one instanceof AccessDeniedException || one instanceof FileNotFoundException
                || one instanceof NotFoundException) {
            return "refused";
        }
        if (one instanceof SQLException) {
            String state = ((SQLException) one).getSQLState();
            String beginning = state == null || state.length() < 2 ? "" : state.substring(0, 2);
            boolean isRefused = one instanceof SQLNonTransientException || beginning.equals("42");
            return beginning.equals("28") ? "login" : isRefused ? "refused" : "retry";
        }
        if (one instanceof CommitFailedException || one instanceof CommitStateUnknownException
                || one instanceof ServiceUnavailableException || one instanceof ServiceFailureException
                || one instanceof InterruptedException || one instanceof Calls.Left || isUnreachable(one)) {
            return "retry";
        }
        return null;
    }

    private static boolean isUnreachable(Throwable one) {
        String name = one.getClass().getName();
        return one instanceof IOException || name.endsWith(".TTransportException") || isWithoutMetastore(one)
                || name.endsWith(".SdkClientException") || isBusy(one)
                || one.getClass() == RESTException.class && one.getCause() instanceof IOException;
    }

    /** True if Hive's client reached no metastore: it tells so by text alone. */
    private static boolean isWithoutMetastore(Throwable one) {
        String said = one.getMessage();
        return one.getClass().getName().endsWith(".MetaException") && said != null
                && said.contains(".TTransportException");
    }

    /** True for an answer of Amazon's services that says to try later; their classes are not there for all catalogs. */
    private static boolean isBusy(Throwable one) {
        Class<?> kind = one.getClass();
        while (kind != null && !kind.getName().endsWith(".SdkServiceException")) {
            kind = kind.getSuperclass();
        }
        try {
            int status = kind == null ? 0 : (int) kind.getMethod("statusCode").invoke(one);
            return status >= 500 || status == 429;
        } catch (ReflectiveOperationException error) {
            return false;
        }
    }

    /** Hive's client puts a stack trace into its messages. */
    private static String withoutTrace(String said) {
        return said.replaceAll("\\R\\s+at [^\\n]*|\\R\\s*\\.\\.\\. \\d+ more", "").strip();
    }

    static String message(Throwable error) {
        if (error instanceof CommitStateUnknownException && error.getCause() != null) {
            // Iceberg's own text advises to remove files by hand, which is done here.
            return "it is not known if the commit was made: " + message(error.getCause());
        }
        if (error instanceof HiveLocks.NoLock) {
            return error.getMessage(); // its causes say nothing that an operator could use
        }
        StringBuilder text = new StringBuilder();
        String last = "";
        int depth = 0;
        for (Throwable one = error; one != null && depth < DEPTH; one = one.getCause(), depth++) {
            String said = one.getMessage() == null ? one.getClass().getSimpleName() : withoutTrace(one.getMessage());
            if (!last.contains(said)) {
                text.append(text.length() == 0 ? "" : ": ").append(said);
                last = said;
            }
        }
        return text.toString();
    }
}
