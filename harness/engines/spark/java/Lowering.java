package harness.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The operations that Python calls in the driver: relations over planned files, calls of static methods, and frames of
 * another session.
 */
public final class Lowering {
    static final String ROW_INDEX = ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();

    private Lowering() {}

    /**
     * Returns the rows of planned files: the fields of `schema` as p0, p1, ..., then the constants, then the row's
     * position.
     *
     * `files` is an Arrow IPC stream with one row per file: its location, its size in bytes, its modification time (ms
     * since 1970, 0 if unknown), and its constants. `bitmap` is the index of the constant with deleted positions, or
     * negative; the positions of deleted rows are then negative complements. `bounds`: see `FileBounds`, or null.
     * `root`: the location of the files' table, or null.
     */
    public static Dataset planned(
            SparkSession session,
            SparkSession user,
            String kind,
            String schema,
            byte[] files,
            java.util.Map options,
            boolean positions,
            int bitmap,
            byte[] bounds,
            String root) throws Exception {
        PlannedFiles planned = PlannedFiles.read(files);
        StructType stored = (StructType) DataType.fromJson(schema);
        HadoopFsRelation relation =
            relation(session, user, kind, stored, planned, options, positions, bitmap, bounds, root);
        LogicalRelation scan = LogicalRelation$.MODULE$.apply(relation, false);
        return project(session, scan, stored.length(), planned.constants.fields(), positions);
    }

    /**
     * Returns the relation of `planned`, with the columns of `stored`, the row's position if requested, and the
     * constants.
     */
    static HadoopFsRelation relation(
            SparkSession session,
            SparkSession user,
            String kind,
            StructType stored,
            PlannedFiles files,
            java.util.Map options,
            boolean positions,
            int bitmap,
            byte[] bounds,
            String root) throws Exception {
        StructType constants = hiddenFrom(stored, files.constants);
        Broadcast[] large = new Broadcast[0];
        if (bitmap >= 0) {
            JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
            large = MarkedRows.broadcast(context, files.rows, bitmap);
        }
        PlannedFileIndex index = new PlannedFileIndex(
            constants,
            files.statuses(),
            (InternalRow[]) files.rows.toArray(new InternalRow[files.rows.size()]),
            bounds == null ? null : new FileBounds(bounds, stored, constants),
            root == null ? null : PlannedFiles.path(root));
        // Spark's reader fills a column with this name. Unlike _metadata.row_index, it needs no struct per row, and no
        // column of a file can take its place.
        StructType read = positions ? stored.add(ROW_INDEX, DataTypes.LongType, true) : stored;
        FileFormat format = format(kind, files.areLocal(), bitmap, large);
        return new HadoopFsRelation(
            index, constants, read, scala.Option.empty(), format, withStoreSettings(user, options), session);
    }

    private static FileFormat format(String kind, boolean local, int bitmap, Broadcast[] large) {
        if (kind.equals("refused")) {
            return new RefusedFiles();
        }
        return kind.equals("orc") ? (FileFormat) new PlannedOrc(local) : new PlannedParquet(local, bitmap, large);
    }

    private static Dataset project(
            SparkSession session, LogicalRelation scan, int fields, StructField[] constants, boolean positions) {
        ArrayList shown = new ArrayList();
        for (int i = 0; i < fields; i++) {
            shown.add(alias((Expression) scan.output().apply(i), "p" + i));
        }
        int first = positions ? fields + 1 : fields;
        for (int i = 0; i < constants.length; i++) {
            shown.add(alias((Expression) scan.output().apply(first + i), constants[i].name()));
        }
        if (positions) {
            Expression position = (Expression) scan.output().apply(fields);
            // A reader that left positions unset would delete the wrong rows.
            shown.add(alias(new AssertNotNull(position, PlannedFileIndex.sequence(new ArrayList())), "pos"));
        }
        return Dataset$.MODULE$.ofRows(session, new Project(PlannedFileIndex.sequence(shown), scan));
    }

    private static Alias alias(Expression value, String name) {
        return new Alias(
            value,
            name,
            NamedExpression$.MODULE$.newExprId(),
            PlannedFileIndex.sequence(new ArrayList()),
            scala.Option.empty(),
            PlannedFileIndex.sequence(new ArrayList()));
    }

    /** Returns the fields of the constants, under names that differ from all columns of the files, ignoring case. */
    private static StructType hiddenFrom(StructType data, StructType constants) {
        java.util.HashSet taken = new java.util.HashSet();
        for (int i = 0; i < data.length(); i++) {
            taken.add(data.fields()[i].name().toLowerCase(java.util.Locale.ROOT));
        }
        StructField[] hidden = new StructField[constants.length()];
        for (int i = 0; i < hidden.length; i++) {
            String name = "harness_constant_" + i;
            while (taken.contains(name)) {
                name = name + "_";
            }
            hidden[i] = new StructField(name, constants.fields()[i].dataType(), true, Metadata.empty());
        }
        return new StructType(hidden);
    }

    /** Returns `options` with the user's settings for object stores, which the private session does not have. */
    static scala.collection.immutable.Map withStoreSettings(SparkSession user, java.util.Map options)
            throws java.io.IOException {
        java.util.HashMap all = new java.util.HashMap();
        scala.collection.Iterator settings = user.sessionState().conf().getAllConfs().iterator();
        while (settings.hasNext()) {
            scala.Tuple2 setting = (scala.Tuple2) settings.next();
            if (((String) setting._1()).startsWith("fs.")) {
                all.put(setting._1(), setting._2());
            }
        }
        all.putAll(options);
        SharedFileSystem.share(all, user);
        return (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.from(
            scala.jdk.javaapi.CollectionConverters.asScala(all));
    }

    /** Returns a column that calls a public static method. It is null if an argument is null. */
    public static Column invoke(SparkSession session, Class owner, String method, String result, List columns) {
        ArrayList arguments = new ArrayList();
        for (int i = 0; i < columns.size(); i++) {
            arguments.add(session.expression((Column) columns.get(i)));
        }
        return ExpressionUtils.column(new StaticInvoke(
            owner,
            DataType.fromJson(result),
            method,
            PlannedFileIndex.sequence(arguments),
            PlannedFileIndex.sequence(new ArrayList()),
            true,
            true,
            true,
            scala.Option.empty()));
    }

    /** Returns the same analyzed plan in another session. */
    public static Dataset expose(SparkSession user, Dataset frame) {
        return Dataset$.MODULE$.ofRows(user, frame.queryExecution().analyzed());
    }
}
