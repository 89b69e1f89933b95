package harness.spark;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Parquet reader for planned files. It fails if a file has changed since planning. The positions of deleted
 * rows are complements, see `MarkedRows`.
 */
public final class PlannedParquet extends ParquetFileFormat {
    private static final String RETURNING_BATCH = "returning_batch";

    private final boolean local;
    private final int bitmap;
    private final Broadcast[] large;

    /**
     * `bitmap`: the index of the constant with a file's deleted positions, or negative. `large`: as in `MarkedRows`.
     */
    public PlannedParquet(boolean local, int bitmap, Broadcast[] large) {
        this.local = local;
        this.bitmap = bitmap;
        this.large = large;
    }

    public scala.Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType data,
            StructType partition,
            StructType required,
            scala.collection.immutable.Seq pushed,
            scala.collection.immutable.Map options,
            Configuration configuration) {
        scala.collection.immutable.Seq filters = ExactFilters.of(pushed);
        int positions = Arrays.asList((Object[]) required.fieldNames()).indexOf(Lowering.ROW_INDEX);
        boolean numbers = positions >= 0 && local && filters.isEmpty() && givesBatches(options);
        StructType read = numbers ? without(required, positions) : required;
        scala.Function1 reader =
            super.buildReaderWithPartitionValues(session, data, partition, read, filters, options, configuration);
        if (numbers) {
            reader = new NumberedRows(reader, positions);
        }
        if (bitmap >= 0 && positions >= 0) { // otherwise the query needs no positions and so drops no row by position
            reader = new MarkedRows(reader, positions, bitmap, large);
        }
        return new UnchangedFiles(reader, local ? null : configuration);
    }

    /** Whether the reader returns columnar batches on the heap. */
    private static boolean givesBatches(scala.collection.immutable.Map options) {
        scala.Option found = options.get(RETURNING_BATCH);
        boolean batches = found.isDefined() && "true".equals(found.get());
        return batches && !SQLConf$.MODULE$.get().offHeapColumnVectorEnabled();
    }

    private static StructType without(StructType schema, int place) {
        ArrayList fields = new ArrayList(Arrays.asList((Object[]) schema.fields()));
        fields.remove(place);
        return new StructType((StructField[]) fields.toArray(new StructField[fields.size()]));
    }
}
