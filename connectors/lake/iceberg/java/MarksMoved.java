package headrace.lake;

import org.apache.iceberg.exceptions.CleanableFailure;

/** The table's marks are not those that a commit was made for; nothing of it is in the table. */
final class MarksMoved extends RuntimeException implements CleanableFailure {
    private static final long serialVersionUID = 1L;

    MarksMoved() {
        super("another writer has moved the offsets in the table");
    }
}
