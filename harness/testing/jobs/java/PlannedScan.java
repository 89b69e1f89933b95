package harness.jobs;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The columns and filters that a query has on a table. Spark applies all filters again: they only skip files. */
public final class PlannedScan implements ScanBuilder, Scan, SupportsPushDownV2Filters, SupportsPushDownRequiredColumns {
    private final PlannedTable table;
    private final CaseInsensitiveStringMap options;
    private final boolean isWhole;
    private Predicate[] filters = new Predicate[0];
    private StructType wanted;

    /** isWhole: rows that no filter keeps are wanted too, as of a table whose rows are written anew. */
    PlannedScan(PlannedTable table, CaseInsensitiveStringMap options, boolean isWhole) {
        this.table = table;
        this.options = options;
        this.isWhole = isWhole;
        this.wanted = table.schema;
    }

    public Predicate[] pushPredicates(Predicate[] predicates) {
        filters = isWhole ? filters : predicates;
        return predicates;
    }

    public Predicate[] pushedPredicates() {
        return filters;
    }

    /** Whole columns: parts of structs that are not asked for are left out by the optimizer above the frame. */
    public void pruneColumns(StructType required) {
        ArrayList kept = new ArrayList();
        for (int i = 0; i < required.length(); i++) {
            kept.add(table.schema.apply(required.fields()[i].name()));
        }
        wanted = new StructType((StructField[]) kept.toArray(new StructField[kept.size()]));
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return wanted;
    }

    public String description() {
        return table.name() + " by harness";
    }

    public Batch toBatch() {
        throw new UnsupportedOperationException(
            "This session has lost harness's rule: read the tables in the session that harness.register was given");
    }

    /** The rows, planned by Python: a frame with just the columns of `readSchema`. */
    Dataset frame() {
        Map request = Answers.request("plan", table.session);
        request.put("table", table.number);
        ArrayList names = new ArrayList();
        for (int i = 0; i < wanted.length(); i++) {
            names.add(wanted.fields()[i].name());
        }
        request.put("columns", names);
        request.put("filters", Filters.described(filters));
        request.put("options", options.asCaseSensitiveMap());
        return (Dataset) Answers.get(request);
    }
}
