package harness.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.util.Base64;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.zip.GZIPInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What a client of Spark Connect asks of the server's JVM, in the options of a source: the relation over planned files,
 * which is that of `Lowering.planned`, or the ends of files, as `FileEnds` reads them on the executors.
 */
public final class PlannedSource implements RelationProvider {
    private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());

    public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map told) {
        try {
            SparkSession user = (SparkSession) context.sparkSession();
            String kind = text(told, "kind");
            if (kind.equals("access")) {
                return new Answer(context, text(told, "scheme").getBytes("UTF-8"), null, 0);
            }
            byte[] files = bytes(told, "files");
            Map options = map(text(told, "hadoop"));
            if (kind.equals("ends")) {
                return new Answer(context, files, options, Integer.parseInt(text(told, "most")));
            }
            return Lowering.relation(
                session(user, map(text(told, "settings"))),
                user,
                kind,
                (StructType) DataType.fromJson(text(told, "schema")),
                PlannedFiles.read(files),
                options,
                Boolean.parseBoolean(text(told, "positions")),
                Integer.parseInt(text(told, "bitmap")),
                told.contains("bounds") ? bytes(told, "bounds") : null,
                told.contains("root") ? text(told, "root") : null);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** The session beside a user's whose settings a read needs. */
    private static SparkSession session(SparkSession user, Map settings) {
        SparkSession found = (SparkSession) SESSIONS.get(user);
        if (found == null) {
            found = (SparkSession) user.newSession();
            for (Object name : settings.keySet()) {
                found.sessionState().conf().setConfString((String) name, (String) settings.get(name));
            }
            SESSIONS.put(user, found);
        }
        return found;
    }

    private static String text(scala.collection.immutable.Map told, String name) {
        return (String) told.apply(name);
    }

    /** Bytes are gzipped and spelled in base64. */
    private static byte[] bytes(scala.collection.immutable.Map told, String name) throws Exception {
        byte[] packed = Base64.getDecoder().decode(text(told, name));
        return new GZIPInputStream(new ByteArrayInputStream(packed)).readAllBytes();
    }

    private static Map map(String json) throws Exception {
        return (Map) new ObjectMapper().readValue(json, java.util.HashMap.class);
    }

    /** One row with one binary column, worked out when the row is read. Without `options` it tells of a file system. */
    static final class Answer extends BaseRelation implements TableScan {
        private final SQLContext context;
        private final byte[] asked;
        private final Map options;
        private final int most;

        Answer(SQLContext context, byte[] asked, Map options, int most) {
            this.context = context;
            this.asked = asked;
            this.options = options;
            this.most = most;
        }

        public SQLContext sqlContext() {
            return context;
        }

        public StructType schema() {
            return new StructType().add("found", DataTypes.BinaryType);
        }

        public RDD buildScan() {
            SparkSession user = (SparkSession) context.sparkSession();
            try {
                Object row = RowFactory.create(new Object[] {found(user)});
                return JavaSparkContext.fromSparkContext(user.sparkContext())
                    .parallelize(Collections.singletonList(row), 1)
                    .rdd();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private byte[] found(SparkSession user) throws Exception {
            if (options != null) {
                return FileEnds.read(user, asked, options, most);
            }
            try {
                FileSystem.getFileSystemClass(new String(asked, "UTF-8"), user.sessionState().newHadoopConf());
                return new byte[] {1};
            } catch (java.io.IOException lacking) {
                return new byte[] {0};
            }
        }
    }
}
