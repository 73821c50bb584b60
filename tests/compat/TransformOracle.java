import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A chain of Apache's transforms between Apache's converters; request and answer are JSON. Janino compiles it. */
public class TransformOracle {
  private final ObjectMapper mapper = new ObjectMapper();
  private Map asked;
  private Converter key;
  private Converter value;
  private HeaderConverter header;
  private List links;
  private Transformation[] transforms;
  private Predicate[] predicates;
  private String stage;

  public synchronized String run(String request) throws Exception {
    asked = (Map) mapper.readValue(request, Map.class);
    key = (Converter) made(asked.get("key"));
    key.configure(settings(asked.get("key")), true);
    value = (Converter) made(asked.get("value"));
    value.configure(settings(asked.get("value")), false);
    header = (HeaderConverter) made(asked.get("header"));
    header.configure(settings(asked.get("header")));
    links = (List) asked.get("links");
    transforms = new Transformation[links.size()];
    predicates = new Predicate[links.size()];
    for (int i = 0; i < links.size(); i++) {
      transforms[i] = (Transformation) made(links.get(i));
      transforms[i].configure(settings(links.get(i)));
      Object predicate = link(i).get("predicate");
      if (predicate == null) continue;
      predicates[i] = (Predicate) made(predicate);
      predicates[i].configure(settings(predicate));
    }
    List answers = new ArrayList();
    List records = (List) asked.get("records");
    for (int i = 0; i < records.size(); i++) answers.add(answer((Map) records.get(i), i));
    return mapper.writeValueAsString(answers);
  }

  /** What a transform declares as its settings, in its order. */
  public String declared(String className) throws Exception {
    Map plugin = Collections.singletonMap("class", className);
    List rows = new ArrayList();
    Iterator keys = ((Transformation) made(plugin)).config().configKeys().values().iterator();
    while (keys.hasNext()) {
      ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) keys.next();
      Map row = new HashMap();
      row.put("name", key.name);
      row.put("type", key.type.name());
      row.put("required", Boolean.valueOf(!key.hasDefault()));
      row.put("default_value", ConfigDef.convertToString(key.hasDefault() ? key.defaultValue : null, key.type));
      row.put("importance", key.importance.name());
      row.put("group", key.group);
      row.put("order_in_group", Integer.valueOf(key.orderInGroup));
      row.put("width", key.width.name());
      row.put("dependents", key.dependents);
      rows.add(row);
    }
    return mapper.writeValueAsString(rows);
  }

  private Object answer(Map row, int offset) {
    try {
      ConnectRecord record = through(read(row, offset));
      return record == null ? (Object) "dropped" : (Object) written(record);
    } catch (ConnectException e) {
      return "error:" + stage + ":" + e.getMessage();
    } catch (IllegalArgumentException e) {
      return "error:" + stage + ":" + e.getMessage();
    } catch (Exception e) {
      return "crash:" + stage + ":" + e.getClass().getName();
    }
  }

  private ConnectRecord read(Map row, int offset) throws Exception {
    String topic = (String) row.get("topic");
    stage = key.getClass().getName();
    SchemaAndValue k = key.toConnectData(topic, bytes(row.get("key")));
    stage = value.getClass().getName();
    SchemaAndValue v = value.toConnectData(topic, bytes(row.get("value")));
    stage = header.getClass().getName();
    ConnectHeaders headers = new ConnectHeaders();
    List given = (List) row.get("headers");
    for (int i = 0; i < given.size(); i++) {
      List one = (List) given.get(i);
      String name = (String) one.get(0);
      headers.add(name, header.toConnectHeader(topic, name, bytes(one.get(1))));
    }
    Integer partition = (Integer) row.get("partition");
    Number time = (Number) row.get("timestamp");
    Long timestamp = time == null ? null : Long.valueOf(time.longValue());
    if (((Boolean) asked.get("source")).booleanValue()) {
      return new SourceRecord(Collections.EMPTY_MAP, Collections.EMPTY_MAP, topic, partition,
          k.schema(), k.value(), v.schema(), v.value(), timestamp, headers);
    }
    return new SinkRecord(topic, partition.intValue(), k.schema(), k.value(), v.schema(), v.value(),
        (long) offset, timestamp, TimestampType.CREATE_TIME, headers);
  }

  private ConnectRecord through(ConnectRecord record) {
    for (int i = 0; i < transforms.length && record != null; i++) {
      stage = (String) link(i).get("class");
      boolean negate = ((Boolean) link(i).get("negate")).booleanValue();
      boolean applies = predicates[i] == null || predicates[i].test(record) != negate;
      if (applies) record = (ConnectRecord) transforms[i].apply(record);
    }
    return record;
  }

  private Map written(ConnectRecord record) throws Exception {
    Map row = new HashMap();
    String topic = record.topic();
    row.put("topic", topic);
    row.put("partition", record.kafkaPartition());
    row.put("timestamp", record.timestamp());
    List headers = new ArrayList();
    stage = header.getClass().getName();
    Iterator all = record.headers().iterator();
    while (all.hasNext()) {
      Header one = (Header) all.next();
      byte[] data = header.fromConnectHeader(topic, one.key(), one.schema(), one.value());
      List pair = new ArrayList();
      pair.add(one.key());
      pair.add(text(data));
      headers.add(pair);
    }
    row.put("headers", headers);
    stage = key.getClass().getName();
    row.put("key", text(key.fromConnectData(topic, record.keySchema(), record.key())));
    stage = value.getClass().getName();
    row.put("value", text(value.fromConnectData(topic, record.valueSchema(), record.value())));
    return row;
  }

  private Map link(int i) {
    return (Map) links.get(i);
  }

  private Object made(Object plugin) throws Exception {
    String name = (String) ((Map) plugin).get("class");
    return Class.forName(name, true, getClass().getClassLoader()).newInstance();
  }

  private Map settings(Object plugin) {
    return (Map) ((Map) plugin).get("settings");
  }

  private static byte[] bytes(Object text) {
    return text == null ? null : Base64.getDecoder().decode((String) text);
  }

  private static String text(byte[] data) {
    return data == null ? null : Base64.getEncoder().encodeToString(data);
  }
}
