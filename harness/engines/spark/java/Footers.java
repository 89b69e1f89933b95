package harness.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** A job that looks at the footers of Parquet files. */
public final class Footers extends FooterJob {
    private static final String LOCAL = "file://";
    private static final int AT_ONCE = 16;
    private static final int TAIL = 1 << 16;
    private static final int FRAME = 8;

    private Footers(SparkSession user, java.util.Map options) throws java.io.IOException {
        super(user, options);
    }

    /** `files`: per file a number, a blank and its location, with a NUL between two. Files that differ in the number never
     * share an image. */
    public static byte[] look(SparkSession user, byte[] files, java.util.Map options) throws Exception {
        return new Footers(user, options).run(user, named(files));
    }

    /** What is found of a chunk: the number of files, a record of each, the number of texts, and each of those. */
    public Object call(Object chunk) throws Exception {
        String[] files = (String[]) chunk;
        Look[] looks = looked(files);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        ByteArrayOutputStream texts = new ByteArrayOutputStream();
        DataOutputStream behind = new DataOutputStream(texts);
        HashMap numbers = new HashMap();
        int count = 0;
        out.writeInt(files.length);
        for (int i = 0; i < looks.length; i++) {
            Object alike = looks[i].alike();
            Integer number = alike == null ? null : (Integer) numbers.get(alike);
            if (number == null && looks[i].kind != COLUMNLESS) {
                number = Integer.valueOf(count++);
                if (alike != null) {
                    numbers.put(alike, number);
                }
                byte[] text = looks[i].text();
                behind.writeByte(looks[i].end != null && looks[i].end.needsBrotli ? 1 : 0);
                behind.writeInt(text.length);
                behind.write(text);
            }
            out.writeByte(looks[i].kind);
            out.writeInt(number == null ? -1 : number.intValue());
            out.writeLong(looks[i].size);
            out.writeLong(looks[i].modified);
            out.writeLong(looks[i].end == null ? 0L : looks[i].end.rows);
        }
        out.writeInt(count);
        behind.flush();
        out.write(texts.toByteArray());
        return bytes.toByteArray();
    }

    private Look[] looked(String[] files) throws Exception {
        Look[] looks = new Look[files.length];
        HashMap opened = new HashMap();
        boolean remote = false;
        for (int i = 0; i < files.length; i++) {
            int blank = files[i].indexOf(' ');
            looks[i] = new Look(files[i].substring(0, blank), files[i].substring(blank + 1), configuration(), opened);
            remote = remote || !files[i].startsWith(LOCAL, blank + 1);
        }
        if (!remote) {
            for (int i = 0; i < looks.length; i++) {
                looks[i].call();
            }
            return looks;
        }
        ExecutorService pool = Executors.newFixedThreadPool(Math.min(AT_ONCE, looks.length));
        try {
            List waiting = pool.invokeAll(java.util.Arrays.asList((Object[]) looks));
            for (int i = 0; i < waiting.size(); i++) {
                ((Future) waiting.get(i)).get();
            }
        } finally {
            pool.shutdownNow();
        }
        return looks;
    }

    /** A look at one file. */
    private static final class Look implements Callable {
        private final String group;
        private final String location;
        private final Configuration configuration;
        private final HashMap opened;
        private byte[] whole = null;
        private String fault = null;
        int kind = FAULTY;
        long size = 0L;
        long modified = 0L;
        ParquetEnd end = null;

        Look(String group, String location, Configuration configuration, HashMap opened) {
            this.group = group;
            this.location = location;
            this.configuration = configuration;
            this.opened = opened;
        }

        /** What files have in common that share a text; null: the text is the file's own, or it has none. */
        Object alike() {
            if (kind != PARSED) {
                return null;
            }
            return java.util.Arrays.asList(new Object[] {
                group, Boolean.valueOf(end.needsBrotli), ByteBuffer.wrap(end.schema), ByteBuffer.wrap(end.kept)
            });
        }

        byte[] text() {
            if (kind == PARSED) {
                return end.image();
            }
            return kind == WHOLE ? whole : fault.getBytes(StandardCharsets.UTF_8);
        }

        public Object call() {
            try {
                look();
            } catch (Exception error) {
                fault = FooterJob.fault(error);
            }
            return null;
        }

        private FileSystem fileSystem(Path path) throws Exception {
            String store = path.toUri().getScheme() + "://" + path.toUri().getAuthority();
            synchronized (opened) {
                FileSystem found = (FileSystem) opened.get(store);
                if (found == null) {
                    found = path.getFileSystem(configuration);
                    opened.put(store, found);
                }
                return found;
            }
        }

        /** Local files without Hadoop, which takes five times as long to open one. */
        private void look() throws Exception {
            if (!location.startsWith(LOCAL)) {
                lookInStore();
                return;
            }
            File file = new File(location.substring(LOCAL.length()));
            RandomAccessFile in = new RandomAccessFile(file, "r");
            try {
                size = in.length();
                modified = file.lastModified();
                examine(null, in);
            } finally {
                in.close();
            }
        }

        private void lookInStore() throws Exception {
            Path path = PlannedFiles.path(location);
            FileSystem fileSystem = fileSystem(path);
            FileStatus status = fileSystem.getFileStatus(path);
            if (!status.isFile()) {
                fault = "R";
                return;
            }
            size = status.getLen();
            modified = status.getModificationTime();
            FSDataInputStream in = fileSystem.open(path);
            try {
                examine(in, null);
            } finally {
                in.close();
            }
        }

        /** One of the two is not null. */
        private void examine(FSDataInputStream stored, RandomAccessFile local) throws Exception {
            if (size == 0L) {
                fault = "M";
                return;
            }
            byte[] tail = read(stored, local, size - Math.min(size, (long) TAIL), Math.min(size, (long) TAIL));
            long needed = FRAME + (long) length(tail);
            if (isFramed(tail) && needed > tail.length && needed <= Math.min(size, (long) MOST)) {
                tail = read(stored, local, size - needed, needed);
            }
            byte[] footer = footer(tail);
            if (footer != null && parse(footer)) {
                return;
            }
            byte[] head = read(stored, local, 0L, Math.min(size, 4L));
            whole = java.util.Arrays.copyOf(head, 4 + tail.length);
            System.arraycopy(tail, 0, whole, 4, tail.length);
            kind = WHOLE;
        }

        private static byte[] read(FSDataInputStream stored, RandomAccessFile local, long at, long length)
                throws Exception {
            byte[] bytes = new byte[(int) length];
            if (local != null) {
                local.seek(at);
                local.readFully(bytes);
            } else {
                stored.readFully(at, bytes);
            }
            return bytes;
        }

        private static boolean isFramed(byte[] tail) {
            int end = tail.length;
            return end > FRAME && tail[end - 4] == 'P' && tail[end - 3] == 'A' && tail[end - 2] == 'R' && tail[end - 1] == '1'
                && length(tail) >= 0;
        }

        private static int length(byte[] tail) {
            if (tail.length < FRAME) {
                return -1;
            }
            return ByteBuffer.wrap(tail).order(java.nio.ByteOrder.LITTLE_ENDIAN).getInt(tail.length - FRAME);
        }

        private static byte[] footer(byte[] tail) {
            int start = tail.length - FRAME - length(tail);
            return isFramed(tail) && start >= 0 ? java.util.Arrays.copyOfRange(tail, start, tail.length - FRAME) : null;
        }

        private boolean parse(byte[] footer) {
            try {
                end = new ParquetEnd(footer, size);
            } catch (RuntimeException unusual) {
                return false;
            }
            kind = end.hasColumns ? PARSED : COLUMNLESS;
            return true;
        }
    }
}
