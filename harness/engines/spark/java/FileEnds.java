package harness.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileNotFoundException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
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
import org.apache.orc.OrcProto;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.SerializableConfiguration;

/**
 * A job that reads the ends of Parquet and ORC files, which hold their footers, on the executors. It parses only the
 * length of a footer. `harness.engines.spark.file_opener` describes and decodes the result. A file that cannot be read
 * does not make the job fail.
 */
public final class FileEnds implements Function {
    private static final int READ = 0;
    private static final int LONG = 1;
    private static final int FAULTY = 2;
    private static final int HEAD = 4;
    private static final int FRAME = 8;
    private static final int GUESS = 1 << 14;
    private static final int AT_ONCE = 16;
    /**
     * The number of files per task. A task costs some milliseconds; a footer costs a tenth of one, or a hundred in a
     * store.
     */
    private static final int FEWEST_FILES = 32;
    private static final int MOST_FILES = 512;

    private final SerializableConfiguration configuration;
    private final int most;

    private FileEnds(SerializableConfiguration configuration, int most) {
        this.configuration = configuration;
        this.most = most;
    }

    /** Returns the result of `read` as text, because Py4J needs a Python step for each byte of an array. */
    public static String text(SparkSession user, byte[] files, java.util.Map options, int most) throws Exception {
        return Base64.getEncoder().encodeToString(read(user, files, options, most));
    }

    /**
     * Reads the ends of files. `files`: the locations, separated by NUL. `most`: for a longer end, only the length is
     * returned.
     */
    static byte[] read(SparkSession user, byte[] files, java.util.Map options, int most) throws Exception {
        Configuration settings = user.sessionState().newHadoopConfWithOptions(Lowering.withStoreSettings(user, options));
        FileEnds job = new FileEnds(new SerializableConfiguration(settings), most);
        return job.run(user, new String(files, StandardCharsets.UTF_8).split("\0"));
    }

    /**
     * Returns the results of all tasks in order. The tasks depend on the files and not on the current cores, because
     * more executors may join.
     */
    private byte[] run(SparkSession user, String[] files) throws Exception {
        JavaSparkContext context = JavaSparkContext.fromSparkContext(user.sparkContext());
        int most = (files.length + FEWEST_FILES - 1) / FEWEST_FILES;
        int fewest = (files.length + MOST_FILES - 1) / MOST_FILES;
        int tasks = Math.max(1, Math.min(most, Math.max(fewest, 4 * context.defaultParallelism().intValue())));
        if (tasks == 1 && context.isLocal().booleanValue()) { // the driver is the executor, so no job is needed
            return (byte[]) call(files);
        }
        ArrayList chunks = new ArrayList();
        for (int i = 0; i < tasks; i++) {
            int start = (int) ((long) files.length * i / tasks);
            int end = (int) ((long) files.length * (i + 1) / tasks);
            chunks.add(Arrays.copyOfRange(files, start, end));
        }
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        for (Object part : context.parallelize(chunks, tasks).map(this).collect()) {
            joined.write((byte[]) part);
        }
        return joined.toByteArray();
    }

    /** Returns the records of a chunk of files, given their names. */
    public Object call(Object chunk) throws Exception {
        String[] files = (String[]) chunk;
        ArrayList looks = new ArrayList();
        for (int i = 0; i < files.length; i++) {
            looks.add(new Look(files[i]));
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ExecutorService pool = Executors.newFixedThreadPool(Math.min(AT_ONCE, files.length));
        try {
            List records = pool.invokeAll(looks);
            for (int i = 0; i < records.size(); i++) {
                bytes.write((byte[]) ((Future) records.get(i)).get());
            }
        } finally {
            pool.shutdownNow();
        }
        return bytes.toByteArray();
    }

    private final class Look implements Callable {
        private final String location;

        Look(String location) {
            this.location = location;
        }

        /** Returns the record of the file. */
        public Object call() throws Exception {
            FileStatus status = new FileStatus();
            try {
                Path path = PlannedFiles.path(location);
                FileSystem fileSystem = path.getFileSystem(configuration.value());
                status = fileSystem.getFileStatus(path);
                if (!status.isFile() || status.getLen() == 0L) {
                    return record(FAULTY, status, new byte[] {(byte) (status.isFile() ? 'M' : 'R')});
                }
                FSDataInputStream in = fileSystem.open(path);
                try {
                    return ends(in, status);
                } finally {
                    in.close();
                }
            } catch (Exception error) {
                return record(FAULTY, status, fault(error).getBytes(StandardCharsets.UTF_8));
            }
        }

        private byte[] ends(FSDataInputStream in, FileStatus status) throws Exception {
            long size = status.getLen();
            byte[] tail = new byte[(int) Math.min(size, (long) GUESS)];
            in.readFully(size - tail.length, tail);
            long needed = needed(tail);
            needed = needed > 0L && needed <= size ? needed : tail.length;
            if (needed > most) {
                return record(LONG, status, ByteBuffer.allocate(8).putLong(needed).array());
            }
            byte[] text = new byte[HEAD + (int) needed];
            in.readFully(0L, text, 0, (int) Math.min(size, (long) HEAD));
            if (needed <= tail.length) {
                System.arraycopy(tail, tail.length - (int) needed, text, HEAD, (int) needed);
            } else {
                in.readFully(size - needed, text, HEAD, (int) needed);
            }
            return record(READ, status, text);
        }
    }

    /** Returns the length of a file's end with the whole footer, from its last bytes; 0 for an unknown format. */
    private static long needed(byte[] tail) throws java.io.IOException {
        int last = tail.length - 1;
        if (tail.length > FRAME && tail[last] == '1' && tail[last - 1] == 'R' && tail[last - 2] == 'A' && tail[last - 3] == 'P') {
            int footer = ByteBuffer.wrap(tail).order(ByteOrder.LITTLE_ENDIAN).getInt(tail.length - FRAME);
            return (footer & 0xffffffffL) + FRAME;
        }
        int postscript = tail[last] & 0xff;
        if (postscript > last) {
            return 0L;
        }
        try {
            byte[] parsed = Arrays.copyOfRange(tail, last - postscript, last);
            return OrcProto.PostScript.parseFrom(parsed).getFooterLength() + postscript + 1L;
        } catch (java.io.IOException damaged) {
            return 0L;
        }
    }

    private static byte[] record(int kind, FileStatus status, byte[] text) throws java.io.IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeByte(kind);
        out.writeLong(status.getLen());
        out.writeLong(status.getModificationTime());
        out.writeInt(text.length);
        out.write(text);
        return bytes.toByteArray();
    }

    /** Returns the record of a file that could not be read. */
    private static String fault(Exception error) {
        if (error instanceof FileNotFoundException) {
            return String.valueOf(error.getMessage()).contains("Permission denied") ? "D" : "M";
        }
        if (error instanceof org.apache.hadoop.security.AccessControlException) {
            return "D";
        }
        return "S" + error.getClass().getName() + ": " + error.getMessage();
    }
}
