package harness.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Parquet reader, for files that are as they were when the read was planned. The positions of deleted rows come
 * as their complements, see `MarkedRows`.
 */
public final class PlannedParquet extends ParquetFileFormat {
    private final boolean local;
    private final int bitmap;

    /** `bitmap`: which constant of a file holds its deleted positions; below 0: none does. */
    public PlannedParquet(boolean local, int bitmap) {
        this.local = local;
        this.bitmap = bitmap;
    }

    public scala.Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType data,
            StructType partition,
            StructType required,
            scala.collection.immutable.Seq filters,
            scala.collection.immutable.Map options,
            Configuration configuration) {
        scala.Function1 reader =
            super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, configuration);
        int positions = java.util.Arrays.asList((Object[]) required.fieldNames()).indexOf(Lowering.ROW_INDEX);
        if (bitmap >= 0 && positions >= 0) { // else the query asks for no position, and so drops no row by it
            reader = new MarkedRows(reader, positions, bitmap);
        }
        return new UnchangedFiles(reader, local ? null : configuration);
    }
}
