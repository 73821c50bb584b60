package headrace;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Reads the numbers of the beans that plugins and their clients have registered; `beans.py` names them. */
public final class Beans {
    private static final String[] OF_JAVA = {"java.", "javax.", "jdk.", "com.sun.", "sun.", "JMImplementation"};

    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    private final ObjectMapper mapper = new ObjectMapper();
    private final List<List<?>> found = new ArrayList<>();
    private final int most;

    private Beans(int mostNumbers) {
        most = mostNumbers;
    }

    /**
     * Returns at most `most` numbers as JSON: the bean's domain and keys, the path from its attribute, and the number.
     */
    public static String read(int most) throws Exception {
        Beans beans = new Beans(most);
        for (ObjectName name : new TreeSet<>(beans.server.queryNames(null, null))) {
            if (!isJavas(name.getDomain())) {
                beans.addAll(name);
            }
        }
        return beans.mapper.writeValueAsString(beans.found);
    }

    private static boolean isJavas(String domain) {
        return Arrays.stream(OF_JAVA).anyMatch(domain::startsWith);
    }

    /** Adds all numbers of a bean; none if it has just gone or does not answer. */
    private void addAll(ObjectName name) {
        try {
            String[] wanted = Arrays.stream(server.getMBeanInfo(name).getAttributes())
                .filter(known -> known.isReadable() && mayBeNumber(known.getType()))
                .map(MBeanAttributeInfo::getName).toArray(String[]::new);
            for (Attribute one : server.getAttributes(name, wanted).asList()) {
                add(name, List.of(one.getName()), one.getValue());
            }
        } catch (Exception error) {
            return;
        }
    }

    private static boolean mayBeNumber(String type) {
        return type.indexOf('.') < 0 || type.equals(CompositeData.class.getName()) || type.startsWith("java.math.")
            || type.startsWith("java.lang.") && !type.equals("java.lang.String");
    }

    private void add(ObjectName name, List<String> path, Object value) {
        if (value instanceof CompositeData data) {
            for (String key : data.getCompositeType().keySet()) {
                List<String> longer = new ArrayList<>(path);
                longer.add(key);
                add(name, longer, data.get(key));
            }
        } else if (found.size() < most && (value instanceof Number || value instanceof Boolean)) {
            double number = value instanceof Number counted ? counted.doubleValue() : value.equals(true) ? 1.0 : 0.0;
            found.add(List.of(name.getDomain(), name.getKeyPropertyListString(), path, number));
        }
    }
}
