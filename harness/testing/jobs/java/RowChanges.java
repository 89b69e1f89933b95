package harness.jobs;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** MERGE, UPDATE and DELETE: Spark computes all new rows of the table, and the write replaces all old rows. */
final class RowChanges implements RowLevelOperation, RowLevelOperationBuilder {
    private final PlannedTable table;
    private final RowLevelOperation.Command command;

    RowChanges(PlannedTable table, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
    }

    public RowLevelOperation build() {
        return this;
    }

    public RowLevelOperation.Command command() {
        return command;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new PlannedScan(table, options, true);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new TestWrite(table, info, command.toString().toLowerCase(java.util.Locale.ROOT));
    }
}
