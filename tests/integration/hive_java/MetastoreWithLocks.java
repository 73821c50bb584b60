package headrace.test;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/** Hive's metastore on an empty database, with the tables of its locks: Hive's own tool for schemas is not in pyspark. */
public final class MetastoreWithLocks {
    private MetastoreWithLocks() {}

    public static void main(String[] args) throws Throwable {
        TxnDbUtil.prepDb(new HiveConf());
        HiveMetaStore.main(args);
    }
}
