package headrace;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.AttributeList;
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
    private final List found = new ArrayList();
    private final int most;

    private Beans(int mostNumbers) {
        most = mostNumbers;
    }

    /** JSON of at most so many numbers: of each the bean's domain and keys, the attribute with names in it, itself. */
    public static String read(int most) throws Exception {
        Beans beans = new Beans(most);
        for (Iterator all = new TreeSet(beans.server.queryNames(null, null)).iterator(); all.hasNext(); ) {
            ObjectName name = (ObjectName) all.next();
            if (!isJavas(name.getDomain())) {
                beans.addAll(name);
            }
        }
        return beans.mapper.writeValueAsString(beans.found);
    }

    private static boolean isJavas(String domain) {
        for (int i = 0; i < OF_JAVA.length; i++) {
            if (domain.startsWith(OF_JAVA[i])) {
                return true;
            }
        }
        return false;
    }

    /** A bean that has just gone, or does not answer, has no numbers. */
    private void addAll(ObjectName name) {
        try {
            MBeanAttributeInfo[] known = server.getMBeanInfo(name).getAttributes();
            List wanted = new ArrayList();
            for (int i = 0; i < known.length; i++) {
                if (known[i].isReadable() && mayBeNumber(known[i].getType())) {
                    wanted.add(known[i].getName());
                }
            }
            AttributeList values = server.getAttributes(name, (String[]) wanted.toArray(new String[0]));
            for (Iterator all = values.iterator(); all.hasNext(); ) {
                Attribute one = (Attribute) all.next();
                List path = new ArrayList();
                path.add(one.getName());
                add(name, path, one.getValue());
            }
        } catch (Exception error) {
            return;
        }
    }

    private static boolean mayBeNumber(String type) {
        return type.indexOf('.') < 0 || type.equals(CompositeData.class.getName()) || type.startsWith("java.math.")
            || type.startsWith("java.lang.") && !type.equals("java.lang.String");
    }

    private void add(ObjectName name, List path, Object value) {
        if (value instanceof CompositeData) {
            CompositeData data = (CompositeData) value;
            for (Iterator all = data.getCompositeType().keySet().iterator(); all.hasNext(); ) {
                String key = (String) all.next();
                List longer = new ArrayList(path);
                longer.add(key);
                add(name, longer, data.get(key));
            }
        } else if (found.size() < most && (value instanceof Number || value instanceof Boolean)) {
            List one = new ArrayList();
            one.add(name.getDomain());
            one.add(name.getKeyPropertyListString());
            one.add(path);
            one.add(value instanceof Boolean ? (((Boolean) value).booleanValue() ? 1.0 : 0.0)
                : ((Number) value).doubleValue());
            found.add(one);
        }
    }
}
