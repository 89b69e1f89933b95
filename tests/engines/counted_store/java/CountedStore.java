package harness.spark;

import java.io.IOException;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.impl.OpenFileParameters;

/** Local files as objects of a store: to open one asks for its status, unless that is known. */
public final class CountedStore extends RawLocalFileSystem {
    public static final AtomicInteger OPENED = new AtomicInteger();
    public static final AtomicInteger CLOSED = new AtomicInteger();
    public static final AtomicInteger HEADS = new AtomicInteger();

    /** The access keys for the buckets that were opened. */
    public static final Set<String> KEYS = ConcurrentHashMap.newKeySet();

    private URI name;

    public static void reset() {
        OPENED.set(0);
        CLOSED.set(0);
        HEADS.set(0);
        KEYS.clear();
    }

    public static String keys() {
        return String.join(" ", KEYS);
    }

    public static String counts() {
        return OPENED.get() + " opened, " + CLOSED.get() + " closed, " + HEADS.get() + " heads";
    }

    public void initialize(URI uri, Configuration configuration) throws IOException {
        name = URI.create(uri.getScheme() + "://" + uri.getAuthority());
        super.initialize(uri, configuration);
        KEYS.add(configuration.get("fs.s3a.bucket." + uri.getAuthority() + ".access.key", "none"));
        OPENED.incrementAndGet();
    }

    public URI getUri() {
        return name == null ? super.getUri() : name;
    }

    public String getScheme() {
        return "s3a";
    }

    protected void checkPath(Path path) {}

    public FileStatus getFileStatus(Path path) throws IOException {
        HEADS.incrementAndGet();
        FileStatus local = super.getFileStatus(path);
        return new FileStatus(local.getLen(), local.isDirectory(), 1, 1L << 25, local.getModificationTime(), path);
    }

    /** Opening asks for the status too. */
    protected CompletableFuture openFileWithOptions(Path path, OpenFileParameters parameters) throws IOException {
        FSDataInputStream opened = open(path, 4096);
        if (parameters.getStatus() != null) {
            HEADS.decrementAndGet();
        }
        return CompletableFuture.completedFuture(opened);
    }

    public void close() throws IOException {
        CLOSED.incrementAndGet();
    }
}
