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
 * which is that of `Lowering.planned`, or the ends of files, as `Footers` and `OrcTails` find them on the executors.
 */
public final class PlannedSource implements RelationProvider {
    private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());

    public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map told) {
        try {
            SparkSession user = (SparkSession) context.sparkSession();
            String kind = text(told, "kind");
            if (kind.equals("access")) {
                return new Answer(context, kind, text(told, "scheme").getBytes("UTF-8"), Collections.EMPTY_MAP);
            }
            byte[] files = bytes(told, "files");
            Map options = map(text(told, "hadoop"));
            if (kind.equals("footers") || kind.equals("tails")) {
                return new Answer(context, kind, files, options);
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

    /** One row with one binary column, worked out when the row is read. */
    static final class Answer extends BaseRelation implements TableScan {
        private final SQLContext context;
        private final String kind;
        private final byte[] asked;
        private final Map options;

        Answer(SQLContext context, String kind, byte[] asked, Map options) {
            this.context = context;
            this.kind = kind;
            this.asked = asked;
            this.options = options;
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
            if (kind.equals("footers")) {
                return Footers.look(user, asked, options);
            }
            if (kind.equals("tails")) {
                return OrcTails.fetch(user, asked, options);
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
