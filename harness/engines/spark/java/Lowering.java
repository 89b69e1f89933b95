package harness.spark;

import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
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
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/** What Python asks of the driver, each in one call: relations over planned files, calls of static methods, exposure. */
public final class Lowering {
    private static final int PATH = 0;
    private static final int SIZE = 1;
    private static final int MODIFIED = 2;
    private static final int CONSTANTS = 3;
    static final String ROW_INDEX = ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();

    private Lowering() {}

    /**
     * The rows of the planned files: the fields of `schema` as p0, p1, ..., then the constants, then the row's position.
     *
     * `files` is an Arrow IPC stream, one row per file: its location, its size in bytes, when it was modified (ms since
     * 1970, 0: unknown), its constants. `bitmap`: which of these holds deleted positions, below 0: none; the positions
     * of deleted rows are then complements, below 0. `bounds`: see `FileBounds`; null: nothing is known. `root`: the
     * table's location; null: the files are of none.
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
        StructType dataSchema = (StructType) DataType.fromJson(schema);
        ArrayList statuses = new ArrayList();
        ArrayList rows = new ArrayList();
        StructType described = readFiles(files, statuses, rows);
        StructType constants = hiddenFrom(dataSchema, described);
        Broadcast[] large = new Broadcast[0];
        if (bitmap >= 0) {
            large = MarkedRows.broadcast(JavaSparkContext.fromSparkContext(session.sparkContext()), rows, bitmap);
        }
        PlannedFileIndex index = new PlannedFileIndex(
            constants,
            (FileStatus[]) statuses.toArray(new FileStatus[statuses.size()]),
            (InternalRow[]) rows.toArray(new InternalRow[rows.size()]),
            bounds == null ? null : new FileBounds(bounds, dataSchema, constants),
            root == null ? null : path(root));
        // Spark's reader fills a column of this name itself. Asking for it, in place of _metadata.row_index, spares a struct
        // per row, and no column of a file can come in its place.
        StructType read = positions ? dataSchema.add(ROW_INDEX, DataTypes.LongType, true) : dataSchema;
        FileFormat format = format(kind, statuses, bitmap, large);
        HadoopFsRelation relation = new HadoopFsRelation(
            index, constants, read, scala.Option.empty(), format, withStoreSettings(user, options), session);
        LogicalRelation scan = LogicalRelation$.MODULE$.apply(relation, false);
        return project(session, scan, dataSchema.length(), described, positions);
    }

    private static FileFormat format(String kind, List statuses, int bitmap, Broadcast[] large) {
        if (kind.equals("refused")) {
            return new RefusedFiles();
        }
        boolean local = true;
        for (int i = 0; i < statuses.size(); i++) {
            local = local && "file".equals(((FileStatus) statuses.get(i)).getPath().toUri().getScheme());
        }
        return kind.equals("orc") ? (FileFormat) new PlannedOrc(local) : new PlannedParquet(local, bitmap, large);
    }

    private static Dataset project(
            SparkSession session, LogicalRelation scan, int fields, StructType described, boolean positions) {
        ArrayList shown = new ArrayList();
        for (int i = 0; i < fields; i++) {
            shown.add(alias((Expression) scan.output().apply(i), "p" + i));
        }
        int first = positions ? fields + 1 : fields;
        for (int i = CONSTANTS; i < described.length(); i++) {
            shown.add(alias((Expression) scan.output().apply(first + i - CONSTANTS), described.fields()[i].name()));
        }
        if (positions) {
            Expression position = (Expression) scan.output().apply(fields);
            // A reader that did not fill it would make rows seem deleted, or not.
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

    /** The fields of the constants under names that no column of a file has in any case. */
    private static StructType hiddenFrom(StructType data, StructType described) {
        java.util.HashSet taken = new java.util.HashSet();
        for (int i = 0; i < data.length(); i++) {
            taken.add(data.fields()[i].name().toLowerCase(java.util.Locale.ROOT));
        }
        StructField[] hidden = new StructField[described.length() - CONSTANTS];
        for (int i = 0; i < hidden.length; i++) {
            String name = "harness_constant_" + i;
            while (taken.contains(name)) {
                name = name + "_";
            }
            hidden[i] = new StructField(name, described.fields()[CONSTANTS + i].dataType(), true, Metadata.empty());
        }
        return new StructType(hidden);
    }

    private static StructType readFiles(byte[] stream, List statuses, List rows) throws Exception {
        BufferAllocator memory = ArrowUtils.rootAllocator().newChildAllocator("harness planned files", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
        try {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            StructType described = ArrowUtils.fromArrowSchema(root.getSchema());
            while (reader.loadNextBatch()) {
                ColumnVector[] columns = new ColumnVector[described.length()];
                for (int i = 0; i < columns.length; i++) {
                    columns[i] = new ArrowColumnVector(root.getVector(i));
                }
                ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
                for (int row = 0; row < root.getRowCount(); row++) {
                    InternalRow values = batch.getRow(row);
                    statuses.add(status(values));
                    rows.add(constants(values, described));
                }
            }
            return described;
        } finally {
            reader.close();
            memory.close();
        }
    }

    private static InternalRow constants(InternalRow values, StructType described) {
        Object[] kept = new Object[described.length() - CONSTANTS];
        for (int i = 0; i < kept.length; i++) {
            if (values.isNullAt(CONSTANTS + i)) {
                continue;
            }
            Object value = values.get(CONSTANTS + i, described.fields()[CONSTANTS + i].dataType());
            // A string points into Arrow's memory, which is freed.
            kept[i] = value instanceof UTF8String ? (Object) ((UTF8String) value).copy() : value;
        }
        return new GenericInternalRow(kept);
    }

    private static FileStatus status(InternalRow file) {
        long size = file.getLong(SIZE);
        Path path = path(file.getUTF8String(PATH).toString());
        return new FileStatus(size, false, 1, Math.max(size, 1L), file.getLong(MODIFIED), path);
    }

    /** `location` is scheme://authority/path with a path as it is on disk: nothing in it is decoded or a pattern. */
    static Path path(String location) {
        int end = location.indexOf("://");
        String rest = location.substring(end + 3);
        int slash = rest.indexOf('/');
        return new Path(location.substring(0, end), rest.substring(0, slash), rest.substring(slash));
    }

    /** `options` with the user's settings for object stores, which a session of our own would not see. */
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
        scala.collection.immutable.Map told =
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        java.util.Iterator entries = all.entrySet().iterator();
        while (entries.hasNext()) {
            java.util.Map.Entry option = (java.util.Map.Entry) entries.next();
            told = (scala.collection.immutable.Map) told.updated(option.getKey(), option.getValue());
        }
        return told;
    }

    /** A column that calls a public static method; null where an argument is null. */
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

    /** The same analysed plan in another session. */
    public static Dataset expose(SparkSession user, Dataset frame) {
        return Dataset$.MODULE$.ofRows(user, frame.queryExecution().analyzed());
    }
}
