package headrace.lake;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** The folders of this machine that files of tables may lie in; a table's manifests may name any file. */
final class Places {
    private final Configuration conf;
    private final List<String> allowed;

    /** Without `allowed` all folders are. */
    Places(Configuration conf, List<String> allowed) {
        this.conf = conf;
        this.allowed = allowed;
    }

    boolean areBounded() {
        return !allowed.isEmpty();
    }

    /** The path of a file that is on this machine's disk; null for one in a store. */
    Path local(String location) {
        URI uri = new org.apache.hadoop.fs.Path(location).toUri();
        String scheme = uri.getScheme() == null ? FileSystem.getDefaultUri(conf).getScheme() : uri.getScheme();
        return "file".equals(scheme.toLowerCase(Locale.ROOT)) ? Path.of(uri.getPath()) : null;
    }

    /** False for a file out of bounds. */
    boolean isAllowed(String location) {
        Path local = local(location);
        if (local == null || allowed.isEmpty()) {
            return true;
        }
        Path real = real(local);
        return allowed.stream().anyMatch(folder -> real.startsWith(real(Path.of(folder))));
    }

    /** Throws for a file out of bounds. */
    void check(String location) {
        if (!isAllowed(location)) {
            throw new IllegalArgumentException("the file " + location + " lies outside of file.allowed.paths");
        }
    }

    /** The path without symbolic links, also of a file that is not there. */
    private static Path real(Path path) {
        try {
            return new File(path.toString()).getCanonicalFile().toPath();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
