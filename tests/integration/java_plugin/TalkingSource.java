package org.example;

import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Measurable;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A source without records that logs, on several threads, and has a bean and a metric. */
public class TalkingSource extends SourceConnector {
    private static final Logger LOG = LoggerFactory.getLogger(TalkingSource.class);
    private Map<String, String> config;

    @Override public String version() { return "1"; }
    @Override public Class<? extends Task> taskClass() { return TalkingTask.class; }
    @Override public void stop() { }

    @Override public void start(Map<String, String> props) {
        config = props;
        LOG.info("the connector starts");
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override public ConfigDef config() {
        return new ConfigDef().define("password", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "A secret.");
    }

    /** What the bean shows. */
    public interface TalkingTaskMBean {
        long getPolls();
        double getShare();
        boolean isConnected();
        String getName();
        int getBroken();
    }

    public static class TalkingTask extends SourceTask implements TalkingTaskMBean {
        private static final Logger LOG = LoggerFactory.getLogger("org.example.talking.Task");
        private ObjectName name;
        private volatile long polls;

        @Override public String version() { return "1"; }

        @Override public void start(Map<String, String> props) {
            LOG.info("two lines,\nof which {} is the second", "this");
            LOG.error("it goes wrong with " + props.get("password"), new IllegalStateException("the cause"));
            System.out.println("printed with " + System.getProperty("headrace.test") + " and "
                + (Runtime.getRuntime().maxMemory() >> 20) + " MB");
            new Thread(() -> LOG.warn("on a thread of its own")).start();
            try {
                name = new ObjectName("org.example:type=talking,name=\"a, b\",server=" + props.get("name"));
                ManagementFactory.getPlatformMBeanServer().registerMBean(this, name);
            } catch (javax.management.JMException error) {
                throw new ConnectException(error);
            }
            Map<String, String> tags = Collections.singletonMap("of", "test");
            context.pluginMetrics().addMetric(
                context.pluginMetrics().metricName("polls", "How often.", new LinkedHashMap<>(tags)),
                (Measurable) (unused, now) -> polls);
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            polls++;
            LOG.debug("polled {}", polls);
            Thread.sleep(100);
            return null;
        }

        @Override public void stop() {
            LOG.info("the task stops");
            try {
                ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
            } catch (javax.management.JMException error) {
                throw new ConnectException(error);
            }
        }

        @Override public long getPolls() { return polls; }
        @Override public double getShare() { return Double.NaN; }
        @Override public boolean isConnected() { return true; }
        @Override public String getName() { return "a text"; }
        @Override public int getBroken() { throw new IllegalStateException("it cannot tell"); }
    }
}
