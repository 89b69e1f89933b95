package harness.spark;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.SerializableConfiguration;

/**
 * A job that looks at the ends of files on the executors. Its result is described in `harness.engines.spark.looks`, which
 * decodes it. A file that cannot be read is no failure of the job. `call` takes the names of a chunk of files.
 */
abstract class FooterJob implements Function {
    static final int PARSED = 0;
    static final int COLUMNLESS = 1;
    static final int WHOLE = 2;
    static final int FAULTY = 3;
    /** The most bytes of a footer that are asked for. */
    static final int MOST = 1 << 28;
    /** Of a task: a task costs some milliseconds, a footer a tenth of one, and in a store a hundred. */
    private static final int FEWEST_FILES = 32;
    private static final int MOST_FILES = 512;

    private final SerializableConfiguration configuration;

    FooterJob(SparkSession user, java.util.Map options) throws java.io.IOException {
        configuration = new SerializableConfiguration(
            user.sessionState().newHadoopConfWithOptions(Lowering.withStoreSettings(user, options)));
    }

    final Configuration configuration() {
        return configuration.value();
    }

    /** Names with a NUL between two, as Python sends them. */
    static String[] named(byte[] files) {
        return new String(files, StandardCharsets.UTF_8).split("\0");
    }

    /** The results of all tasks, one after another. Files make tasks, not the cores of the moment: executors may still come. */
    final byte[] run(SparkSession user, String[] files) throws Exception {
        JavaSparkContext context = JavaSparkContext.fromSparkContext(user.sparkContext());
        int most = (files.length + FEWEST_FILES - 1) / FEWEST_FILES;
        int fewest = (files.length + MOST_FILES - 1) / MOST_FILES;
        int tasks = Math.max(1, Math.min(most, Math.max(fewest, 4 * context.defaultParallelism().intValue())));
        if (tasks == 1 && context.isLocal().booleanValue()) { // the driver is the executor: a job would only cost time
            return (byte[]) call(files);
        }
        ArrayList chunks = new ArrayList();
        for (int i = 0; i < tasks; i++) {
            int start = (int) ((long) files.length * i / tasks);
            int end = (int) ((long) files.length * (i + 1) / tasks);
            chunks.add(java.util.Arrays.copyOfRange(files, start, end));
        }
        List found = context.parallelize(chunks, tasks).map(this).collect();
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        for (Object part : found) {
            joined.write((byte[]) part);
        }
        return joined.toByteArray();
    }

    /** The text of a file that could not be looked at. */
    static String fault(Exception error) {
        if (error instanceof FileNotFoundException) {
            return String.valueOf(error.getMessage()).contains("Permission denied") ? "D" : "M";
        }
        if (error instanceof org.apache.hadoop.security.AccessControlException) {
            return "D";
        }
        return "S" + error.getClass().getName() + ": " + error.getMessage();
    }
}
