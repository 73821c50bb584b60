package headrace.lake;

import org.apache.iceberg.Snapshot;

/**
 * The table has a commit already, of which the catalog said that it failed.
 *
 * <p>It is no CleanableFailure: Iceberg would delete the manifests of the commit that is in the table.
 */
final class AlreadyIn extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private AlreadyIn() {
        super("the table has this commit already");
    }

    /** Throws if a snapshot is of the commit with this id; called before each attempt of Iceberg's own. */
    static void check(Iterable<Snapshot> ancestry, String id) {
        for (Snapshot one : ancestry) {
            if (Intents.isOf(one, id)) {
                throw new AlreadyIn();
            }
        }
    }
}
