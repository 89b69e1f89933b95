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

/** What Python opened, under the number that it gave it. Rows are read as `PlannedReads` says, written as `TestWrite`. */
public class PlannedTable implements SupportsRead, SupportsWrite, SupportsRowLevelOperations, StagedTable {
    final String session;
    final String number;
    final StructType schema;
    private final String key;
    private final String name;
    private final boolean isUnknown;
    private final boolean isWritable;
    private final Transform[] partitioning;

    PlannedTable(String session, JsonNode told) {
        this(session, told, new Transform[0]);
    }

    PlannedTable(String session, JsonNode told, Transform[] partitioning) {
        this.session = session;
        this.number = told.get("table").asText();
        this.key = told.get("key").asText();
        this.name = told.get("name").asText();
        this.isUnknown = told.get("schema").isNull();
        this.isWritable = told.get("writable").asBoolean();
        this.schema = isUnknown ? new StructType() : (StructType) DataType.fromJson(told.get("schema").asText());
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
        HashSet found = new HashSet();
        found.add(TableCapability.BATCH_READ);
        if (isWritable) {
            found.add(TableCapability.BATCH_WRITE);
            found.add(TableCapability.TRUNCATE);
            found.add(TableCapability.OVERWRITE_BY_FILTER);
            found.add(TableCapability.OVERWRITE_DYNAMIC);
        }
        if (isUnknown) {
            found.add(TableCapability.ACCEPT_ANY_SCHEMA);
        }
        return found;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new PlannedScan(this, options);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new TestWrite(this, info);
    }

    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        Map request = Answers.request("refuse", session);
        request.put("command", info.command().toString());
        request.put("name", name);
        Answers.ask(request);
        return null;
    }

    public void commitStagedChanges() {
        tell("commit");
    }

    public void abortStagedChanges() {
        tell("abort");
    }

    private void tell(String what) {
        Map request = Answers.request(what, session);
        request.put("table", number);
        Answers.ask(request);
    }

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
