package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that Python opened under a number. `PlannedReads` replaces its reads, and `TestWrite` records writes. */
public class PlannedTable implements SupportsRead, SupportsWrite, SupportsRowLevelOperations, StagedTable {
    final String session;
    final String number;
    final StructType schema;
    private final String key;
    private final String name;
    private final boolean isUnknown;
    private final boolean isWritable;
    private final Transform[] partitioning;

    PlannedTable(String session, JsonNode answer) {
        this(session, answer, new Transform[0]);
    }

    PlannedTable(String session, JsonNode answer, Transform[] partitioning) {
        this.session = session;
        this.number = answer.get("table").asText();
        this.key = answer.get("key").asText();
        this.name = answer.get("name").asText();
        this.isUnknown = answer.get("schema").isNull();
        this.isWritable = answer.get("writable").asBoolean();
        this.schema = isUnknown ? new StructType() : (StructType) DataType.fromJson(answer.get("schema").asText());
        this.partitioning = partitioning;
    }

    public String name() {
        return name;
    }

    public StructType schema() {
        return schema;
    }

    public Transform[] partitioning() {
        return partitioning;
    }

    public Set capabilities() {
        HashSet result = new HashSet();
        result.add(TableCapability.BATCH_READ);
        if (isWritable) {
            result.add(TableCapability.BATCH_WRITE);
            result.add(TableCapability.TRUNCATE);
            result.add(TableCapability.OVERWRITE_BY_FILTER);
            result.add(TableCapability.OVERWRITE_DYNAMIC);
            result.addAll(evolving());
        }
        if (isUnknown) {
            result.add(TableCapability.ACCEPT_ANY_SCHEMA);
        }
        return result;
    }

    /** Since Spark 4.1. Without it, MERGE WITH SCHEMA EVOLUTION drops new columns; with it, the catalog refuses it. */
    private static Set evolving() {
        HashSet result = new HashSet();
        TableCapability[] known = TableCapability.values();
        for (int i = 0; i < known.length; i++) {
            if (known[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) {
                result.add(known[i]);
            }
        }
        return result;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new PlannedScan(this, options, false);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new TestWrite(this, info, "append");
    }

    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        try {
            Class.forName("org.apache.spark.sql.execution.datasources.v2.DataWithProjectionWritingSparkTask");
        } catch (ClassNotFoundException missing) { // Spark 4.0 adds a column before the rows that it passes to writers
            throw Answers.failure("Cannot " + info.command() + " rows of " + name + " on Spark 4.0: use a newer pyspark, "
                + "or overwrite the table with a DataFrame of its new rows");
        }
        return new RowChanges(this, info.command());
    }

    public void commitStagedChanges() {
        Map request = Answers.request("commit", session);
        request.put("table", number);
        Answers.ask(request);
    }

    public void abortStagedChanges() {} // uncommitted rows are ignored

    public boolean equals(Object other) {
        return other instanceof PlannedTable && key.equals(((PlannedTable) other).key);
    }

    public int hashCode() {
        return key.hashCode();
    }

    public String toString() {
        return name;
    }
}
