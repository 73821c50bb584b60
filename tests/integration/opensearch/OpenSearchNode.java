import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * One node of OpenSearch with its modules on the class path, for tests. Maven Central has no class loader of plugins,
 * which the server's own main class needs. Arguments: settings, each as name=value.
 */
public final class OpenSearchNode extends Node {
    private OpenSearchNode(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, CommonAnalysisPlugin.class, PainlessPlugin.class), true);
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Settings made = settings.build();
        new OpenSearchNode(new Environment(made, Path.of(made.get("path.home"), "config"))).start();
        new CountDownLatch(1).await();
    }
}
