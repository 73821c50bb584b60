package headrace.test;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/** Hive's metastore on an empty database, with the tables of its locks: Hive's own tool for schemas is not in pyspark. */
public final class MetastoreWithLocks {
    private MetastoreWithLocks() {}

    public static void main(String[] args) throws Throwable {
        if (!Files.exists(Path.of("db"))) { // Derby's folder: a metastore that starts again has its tables
            TxnDbUtil.prepDb(new HiveConf());
        }
        HiveMetaStore.main(args);
    }
}
