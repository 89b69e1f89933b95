package harness.jobs;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetWrite;

/** Rows that a job writes, as Parquet in a scratch directory that is reported to Python once it is complete. */
public final class TestWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, Write, BatchWrite {
    private final PlannedTable table;
    private final LogicalWriteInfo info;
    private String mode;
    private String where = null;
    private String directory;
    private BatchWrite files;

    TestWrite(PlannedTable table, LogicalWriteInfo info, String mode) {
        this.table = table;
        this.info = info;
        this.mode = mode;
    }

    public WriteBuilder truncate() {
        mode = "overwrite";
        return this;
    }

    public WriteBuilder overwrite(Predicate[] predicates) {
        boolean all = predicates.length == 0 || predicates.length == 1 && predicates[0].name().equals("ALWAYS_TRUE");
        mode = "overwrite";
        if (!all) {
            ArrayList parts = new ArrayList();
            for (int i = 0; i < predicates.length; i++) {
                parts.add(predicates[i].toString());
            }
            where = String.join(" AND ", parts);
        }
        return this;
    }

    public WriteBuilder overwriteDynamicPartitions() {
        mode = "overwritePartitions";
        return this;
    }

    public Write build() {
        Map request = Answers.request("directory", table.session);
        request.put("table", table.number);
        request.put("options", info.options().asCaseSensitiveMap());
        directory = Answers.ask(request).get("directory").asText();
        return this;
    }

    public BatchWrite toBatch() {
        ArrayList paths = new ArrayList();
        paths.add(directory);
        files = new ParquetWrite(
            scala.jdk.javaapi.CollectionConverters.asScala(paths).toList(), "parquet", new AnyType(), info).toBatch();
        return this;
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        return files.createBatchWriterFactory(physical);
    }

    public boolean useCommitCoordinator() {
        return files.useCommitCoordinator();
    }

    public void onDataWriterCommit(WriterCommitMessage message) {
        files.onDataWriterCommit(message);
    }

    public void commit(WriterCommitMessage[] messages) {
        files.commit(messages);
        Map request = Answers.request("written", table.session);
        request.put("table", table.number);
        request.put("mode", mode);
        request.put("where", where);
        request.put("options", info.options().asCaseSensitiveMap());
        request.put("directory", directory);
        request.put("schema", info.schema().json());
        Answers.ask(request);
    }

    public void abort(WriterCommitMessage[] messages) {
        files.abort(messages);
    }

    private static final class AnyType extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
        public Object apply(Object type) {
            return Boolean.TRUE;
        }
    }
}
