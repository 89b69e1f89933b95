package harness.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;

/**
 * A file index with exactly the planned files. It lists no directory and opens no file. Each file is a partition whose
 * partition values are the file's constants, so that a filter on constants skips files. A filter on columns also skips
 * files, by the known bounds.
 */
public final class PlannedFileIndex implements FileIndex {
    private final StructType partitionSchema;
    private final FileStatus[] files;
    private final InternalRow[] constants;
    private final FileBounds bounds;
    private final Path root;
    private final long bytes;

    /** `bounds`: the known bounds, or null. `root`: the table's location, or null. */
    PlannedFileIndex(
            StructType partitionSchema, FileStatus[] files, InternalRow[] constants, FileBounds bounds, Path root) {
        this.partitionSchema = partitionSchema;
        this.files = files;
        this.constants = constants;
        this.bounds = bounds;
        this.root = root;
        long total = 0;
        for (int i = 0; i < files.length; i++) {
            total += files[i].getLen();
        }
        this.bytes = total;
    }

    public scala.collection.immutable.Seq listFiles(
            scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
        InterpretedPredicate wanted = predicate(partitionFilters);
        boolean[] mayHold = bounds == null ? null : bounds.mayHold(dataFilters, constants);
        scala.collection.immutable.Map none =
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        ArrayList kept = new ArrayList();
        for (int i = 0; i < files.length; i++) {
            if ((mayHold == null || mayHold[i]) && (wanted == null || wanted.eval(constants[i]))) {
                List file = Collections.singletonList(new FileStatusWithMetadata(files[i], none));
                kept.add(new PartitionDirectory(constants[i], sequence(file)));
            }
        }
        return sequence(kept);
    }

    // Spark removes the filters that it passes here from the rest of the plan, so a filter that cannot be evaluated is
    // an error.
    private InterpretedPredicate predicate(scala.collection.immutable.Seq filters) {
        Expression all = null;
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            Expression bound = (Expression) ((Expression) each.next()).transform(new Binding(partitionSchema));
            all = all == null ? bound : new And(all, bound);
        }
        if (all == null) {
            return null;
        }
        InterpretedPredicate predicate = new InterpretedPredicate(all);
        predicate.initialize(0);
        return predicate;
    }

    static scala.collection.immutable.Seq sequence(List values) {
        return scala.jdk.javaapi.CollectionConverters.asScala(values).toList();
    }

    /** Replaces a constant's column by its index in a file's row of constants. */
    static final class Binding extends scala.runtime.AbstractPartialFunction {
        private final StructType schema;

        Binding(StructType schema) {
            this.schema = schema;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof AttributeReference;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!(node instanceof AttributeReference)) {
                return otherwise.apply(node);
            }
            AttributeReference column = (AttributeReference) node;
            return new BoundReference(schema.fieldIndex(column.name()), column.dataType(), true);
        }
    }

    public scala.collection.immutable.Seq rootPaths() {
        return sequence(root == null ? Collections.EMPTY_LIST : Collections.singletonList(root));
    }

    public String[] inputFiles() {
        String[] names = new String[files.length];
        for (int i = 0; i < files.length; i++) {
            names[i] = SparkPath.fromFileStatus(files[i]).urlEncoded();
        }
        return names;
    }

    public void refresh() {}

    public long sizeInBytes() {
        return bytes;
    }

    public StructType partitionSchema() {
        return partitionSchema;
    }

    public scala.Option metadataOpsTimeNs() {
        return scala.None$.MODULE$;
    }

    public String toString() {
        return "PlannedFileIndex(" + files.length + " files)";
    }
}
