package harness.spark;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.commons.codec.digest.DigestUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.hadoop.util.functional.FutureIO;
import org.apache.spark.sql.classic.SparkSession;

/**
 * An object store for reads with their own options. Hadoop caches file systems by bucket, regardless of their options,
 * so such reads bypass Hadoop's cache and request a file system per file. That file system is this thin wrapper. Behind
 * it, all reads of the JVM share one file system per bucket and options; the most recently used are kept.
 *
 * If the status of a file was requested, this class passes the status to the open call. This saves a request, and makes
 * the read fail if the file was replaced meanwhile.
 */
public final class SharedFileSystem extends FilterFileSystem {
    private static final int MOST = 32;
    private static final int MOST_STATUSES = 4096;
    private static final String OPTIONS = "harness.store.options";
    private static final String UNCACHED = ".impl.disable.cache";
    private static final String BEHIND = "harness.store.impl.";
    private static final ThreadLocal NEXT = new ThreadLocal();
    private static final LinkedHashMap STORES = new LinkedHashMap(16, 0.75f, true);

    private Map statuses;

    /** Adds to the options of a read the settings that share its stores: the schemes that bypass Hadoop's cache. */
    static void share(Map options, SparkSession user) throws IOException {
        ArrayList schemes = new ArrayList();
        for (Object key : options.keySet()) {
            String name = (String) key;
            if (name.endsWith(UNCACHED) && !name.equals("fs.file" + UNCACHED)) {
                schemes.add(name.substring("fs.".length(), name.length() - UNCACHED.length()));
            }
        }
        if (schemes.isEmpty()) { // most reads; Hadoop's configuration has a thousand entries
            return;
        }
        Configuration configuration = user.sessionState().newHadoopConf();
        TreeMap said = new TreeMap();
        for (Iterator all = configuration.iterator(); all.hasNext(); ) {
            Map.Entry setting = (Map.Entry) all.next();
            if (((String) setting.getKey()).startsWith("fs.")) {
                said.put(setting.getKey(), setting.getValue());
            }
        }
        said.putAll(options);
        options.put(OPTIONS, DigestUtils.sha256Hex(said.toString()));
        for (Object scheme : schemes) {
            options.put(BEHIND + scheme, FileSystem.getFileSystemClass((String) scheme, configuration).getName());
            options.put("fs." + scheme + ".impl", SharedFileSystem.class.getName());
        }
    }

    public void initialize(URI name, Configuration configuration) throws IOException {
        String key = configuration.get(OPTIONS) + " " + name.getScheme() + "://" + name.getAuthority();
        synchronized (STORES) {
            Object[] found = (Object[]) STORES.get(key);
            if (found == null) {
                Class behind = configuration.getClass(BEHIND + name.getScheme(), null);
                FileSystem opened = (FileSystem) ReflectionUtils.newInstance(behind, configuration);
                opened.initialize(name, configuration);
                found = new Object[] {opened, lastUsed()};
                STORES.put(key, found);
                closeEldest();
            }
            fs = (FileSystem) found[0];
            statuses = (Map) found[1];
        }
        super.initialize(name, configuration);
    }

    private static void closeEldest() throws IOException {
        if (STORES.size() > MOST) {
            Iterator eldest = STORES.values().iterator();
            FileSystem unused = (FileSystem) ((Object[]) eldest.next())[0];
            eldest.remove();
            unused.close();
        }
    }

    private static Map lastUsed() {
        return Collections.synchronizedMap(new LinkedHashMap(16, 0.75f, true) {
            protected boolean removeEldestEntry(Map.Entry eldest) {
                return size() > MOST_STATUSES;
            }
        });
    }

    /**
     * Lets the next status request of this thread return a status that was just requested, if it is for the same file.
     */
    static void answer(Path path, FileStatus status) {
        NEXT.set(new Object[] {path, status});
    }

    public FileStatus getFileStatus(Path path) throws IOException {
        Object[] next = (Object[]) NEXT.get();
        NEXT.remove();
        if (next != null && next[0].equals(path)) {
            return (FileStatus) next[1];
        }
        FileStatus status = fs.getFileStatus(path);
        statuses.put(path, status);
        return status;
    }

    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        FileStatus known = (FileStatus) statuses.get(path);
        if (known == null) {
            return fs.open(path, bufferSize);
        }
        return (FSDataInputStream) FutureIO.awaitFuture((Future) fs.openFile(path).withFileStatus(known).build());
    }

    public String getScheme() {
        return fs.getScheme();
    }

    /** Does nothing: other reads share the store. */
    public void close() {}
}
