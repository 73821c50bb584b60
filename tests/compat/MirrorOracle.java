import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.OffsetSyncStore;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** MirrorMaker's own client, and its store of offset syncs. Janino compiles it. */
public class MirrorOracle {
  private Map config(String bootstrap) {
    Thread.currentThread().setContextClassLoader(getClass().getClassLoader());
    Map config = new HashMap();
    config.put("bootstrap.servers", bootstrap);
    return config;
  }

  /** Lines of topic, partition, offset and metadata. */
  public String translateOffsets(String bootstrap, String alias, String group) throws Exception {
    Map found = RemoteClusterUtils.translateOffsets(config(bootstrap), alias, group, Duration.ofSeconds(30));
    TreeSet lines = new TreeSet();
    for (Iterator entries = found.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      TopicPartition at = (TopicPartition) entry.getKey();
      OffsetAndMetadata to = (OffsetAndMetadata) entry.getValue();
      lines.add(at.topic() + " " + at.partition() + " " + to.offset() + " " + to.metadata());
    }
    return String.join("\n", lines);
  }

  public String upstreamClusters(String bootstrap) throws Exception {
    return String.join(",", new TreeSet(RemoteClusterUtils.upstreamClusters(config(bootstrap))));
  }

  public String checkpointTopics(String bootstrap) throws Exception {
    return String.join(",", new TreeSet(RemoteClusterUtils.checkpointTopics(config(bootstrap))));
  }

  public int replicationHops(String bootstrap, String alias) throws Exception {
    return RemoteClusterUtils.replicationHops(config(bootstrap), alias);
  }

  /** What MirrorMaker translates upstream offsets to, after these values of offset syncs with this key; -1: nothing. */
  public String translated(byte[] key, String[] syncs, String[] upstream) throws Exception {
    Constructor made = OffsetSyncStore.class.getDeclaredConstructor(new Class[0]);
    made.setAccessible(true);
    Object store = made.newInstance(new Object[0]);
    Method handle = OffsetSyncStore.class.getDeclaredMethod("handleRecord", new Class[] {ConsumerRecord.class});
    handle.setAccessible(true);
    set(store, "initializationMustReadToEnd", false);
    for (int i = 0; i < syncs.length; i++) {
      byte[] value = new byte[16];
      java.nio.ByteBuffer buffer = java.nio.ByteBuffer.wrap(value);
      String[] pair = syncs[i].split(":");
      buffer.putLong(Long.parseLong(pair[0]));
      buffer.putLong(Long.parseLong(pair[1]));
      handle.invoke(store, new Object[] {new ConsumerRecord("syncs", 0, (long) i, key, value)});
    }
    set(store, "readToEnd", true);
    TopicPartition at = new TopicPartition("t", 0);
    StringBuilder answer = new StringBuilder();
    for (int i = 0; i < upstream.length; i++) {
      OptionalLong found = ((OffsetSyncStore) store).translateDownstream("g", at, Long.parseLong(upstream[i]));
      answer.append(i == 0 ? "" : " ").append(found.orElse(-1L));
    }
    return answer.toString();
  }

  private void set(Object store, String name, boolean value) throws Exception {
    Field field = OffsetSyncStore.class.getDeclaredField(name);
    field.setAccessible(true);
    field.setBoolean(store, value);
  }
}
