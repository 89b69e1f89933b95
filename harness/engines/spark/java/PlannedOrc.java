package harness.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.types.StructType;

/** Spark's ORC reader for planned files. It fails if a file has changed since planning. */
public final class PlannedOrc extends OrcFileFormat {
    private final boolean local;

    public PlannedOrc(boolean local) {
        this.local = local;
    }

    public scala.Function1 buildReaderWithPartitionValues(
            SparkSession session,
            StructType data,
            StructType partition,
            StructType required,
            scala.collection.immutable.Seq filters,
            scala.collection.immutable.Map options,
            Configuration configuration) {
        return new UnchangedFiles(
            super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, configuration),
            local ? null : configuration);
    }
}
