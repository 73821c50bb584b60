package org.example;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.ShowLocksRequest;
import org.apache.hadoop.hive.metastore.api.ShowLocksResponseElement;
import org.apache.iceberg.catalog.TableIdentifier;

/** Another writer's lock of a table in Hive's metastore, also of a table that is not there. */
final class HiveLockTool {
  static final String ACTIONS = "lock|unlock|locks";
  private static final String USER = "somebody";

  private HiveLockTool() {}

  /** Each lock of the table after the action: its state and its user. */
  static List<List<String>> run(String action, Map<String, String> catalogProperties, String name) {
    HiveConf conf = new HiveConf();
    conf.set("hive.metastore.uris", catalogProperties.get("uri"));
    TableIdentifier table = TableIdentifier.parse(name);
    try {
      HiveMetaStoreClient client = new HiveMetaStoreClient(conf);
      try {
        if (action.equals("lock")) {
          LockComponent component = new LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, table.namespace().level(0));
          component.setTablename(table.name());
          client.lock(new LockRequest(List.of(component), USER, "elsewhere"));
        }
        List<List<String>> found = new ArrayList<>();
        for (ShowLocksResponseElement one : locks(client, table)) {
          if (action.equals("unlock") && one.getUser().equals(USER)) {
            client.unlock(one.getLockid());
          } else {
            found.add(List.of(one.getState().name(), one.getUser()));
          }
        }
        return found;
      } finally {
        client.close();
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static List<ShowLocksResponseElement> locks(HiveMetaStoreClient client, TableIdentifier table)
      throws Exception {
    ShowLocksRequest request = new ShowLocksRequest();
    request.setDbname(table.namespace().level(0));
    request.setTablename(table.name());
    return client.showLocks(request).getLocks();
  }
}
