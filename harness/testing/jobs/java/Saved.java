package harness.jobs;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;

/** The relation that Spark receives after rows are saved. It is never read. */
final class Saved extends BaseRelation {
    private final SQLContext context;
    private final StructType schema;

    Saved(SQLContext context, StructType schema) {
        this.context = context;
        this.schema = schema;
    }

    public SQLContext sqlContext() {
        return context;
    }

    public StructType schema() {
        return schema;
    }
}
