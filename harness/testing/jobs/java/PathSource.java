package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** `spark.read.format("iceberg" | "delta")` and `df.write.format(...)`, by path or name. */
public abstract class PathSource implements TableProvider, CreatableRelationProvider, DataSourceRegister {
    private PlannedTable table;

    private String session() {
        scala.Option setting = SparkSession.active().conf().getOption("spark.sql.catalog." + shortName() + ".harness");
        if (setting.isEmpty()) {
            throw Answers.failure(
                "harness reads no " + shortName() + " tables in this session: call harness.testing.SparkJob.on(spark) first");
        }
        return (String) setting.get();
    }

    private PlannedTable opened(Map options) {
        String session = session();
        Map request = Answers.request("path", session);
        request.put("format", shortName());
        request.put("options", options);
        return new PlannedTable(session, Answers.ask(request));
    }

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        table = opened(options.asCaseSensitiveMap());
        return table.schema();
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map options) {
        // Only a read requests the schema. A write continues with createRelation, whatever is at the path.
        return table == null ? (Table) new Target(shortName(), schema) : table;
    }

    public boolean supportsExternalMetadata() {
        return true;
    }

    public BaseRelation createRelation(
            SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset rows) {
        Map request = Answers.request("save", session());
        request.put("format", shortName());
        request.put("mode", mode.name());
        request.put("options", scala.jdk.javaapi.CollectionConverters.asJava(options));
        Answers.ask(request, rows);
        return new Saved(context, rows.schema());
    }
}
