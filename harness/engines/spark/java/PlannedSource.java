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
 * The data source through which a Spark Connect client uses the server's JVM. The options of a read select the relation
 * over planned files (see `Lowering.planned`) or the ends of files (see `FileEnds`).
 */
public final class PlannedSource implements RelationProvider {
    private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());

    public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map parameters) {
        try {
            SparkSession user = (SparkSession) context.sparkSession();
            String kind = text(parameters, "kind");
            if (kind.equals("access")) {
                return new Answer(context, text(parameters, "scheme").getBytes("UTF-8"), null, 0);
            }
            byte[] files = bytes(parameters, "files");
            Map options = map(text(parameters, "hadoop"));
            if (kind.equals("ends")) {
                return new Answer(context, files, options, Integer.parseInt(text(parameters, "most")));
            }
            return Lowering.relation(
                session(user, map(text(parameters, "settings"))),
                user,
                kind,
                (StructType) DataType.fromJson(text(parameters, "schema")),
                PlannedFiles.read(files),
                options,
                Boolean.parseBoolean(text(parameters, "positions")),
                Integer.parseInt(text(parameters, "bitmap")),
                parameters.contains("bounds") ? bytes(parameters, "bounds") : null,
                parameters.contains("root") ? text(parameters, "root") : null);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** The private session next to a user's session, with the settings that a read needs. */
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

    private static String text(scala.collection.immutable.Map parameters, String name) {
        return (String) parameters.apply(name);
    }

    /** Decodes base64 text to gzipped bytes and decompresses them. */
    private static byte[] bytes(scala.collection.immutable.Map parameters, String name) throws Exception {
        byte[] packed = Base64.getDecoder().decode(text(parameters, name));
        return new GZIPInputStream(new ByteArrayInputStream(packed)).readAllBytes();
    }

    private static Map map(String json) throws Exception {
        return (Map) new ObjectMapper().readValue(json, java.util.HashMap.class);
    }

    /**
     * A relation with one row and one binary column, computed when the row is read. Without `options` it returns
     * whether there is a file system.
     */
    static final class Answer extends BaseRelation implements TableScan {
        private final SQLContext context;
        private final byte[] request;
        private final Map options;
        private final int most;

        Answer(SQLContext context, byte[] request, Map options, int most) {
            this.context = context;
            this.request = request;
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
                return FileEnds.read(user, request, options, most);
            }
            try {
                FileSystem.getFileSystemClass(new String(request, "UTF-8"), user.sessionState().newHadoopConf());
                return new byte[] {1};
            } catch (java.io.IOException lacking) {
                return new byte[] {0};
            }
        }
    }
}
