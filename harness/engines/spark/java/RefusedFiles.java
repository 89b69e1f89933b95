package harness.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/**
 * Files that cannot be read. The first constant of each file is the reason. A query that reads such a file fails, and a
 * query whose filters on constants exclude the file succeeds. Spark regards the other columns as stored columns without
 * known values.
 */
public final class RefusedFiles extends ParquetFileFormat {
    public scala.Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType data,
            StructType partition,
            StructType required,
            scala.collection.immutable.Seq filters,
            scala.collection.immutable.Map options,
            Configuration configuration) {
        return new Refusal();
    }

    private static final class Refusal extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
        public Object apply(Object file) {
            throw new IllegalStateException(((PartitionedFile) file).partitionValues().getUTF8String(0).toString());
        }
    }
}
