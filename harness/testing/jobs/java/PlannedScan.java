package harness.jobs;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** The columns and filters of a query on a table. Spark applies all filters again, so they only skip files. */
public final class PlannedScan implements ScanBuilder, Scan, SupportsPushDownV2Filters, SupportsPushDownRequiredColumns {
    private final PlannedTable table;
    private final CaseInsensitiveStringMap options;
    private final boolean isWhole;
    private Predicate[] filters = new Predicate[0];
    private StructType wanted;

    /** isWhole: rows that the filters exclude are needed too, because the whole table is rewritten. */
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

    /** Selects whole columns. The optimizer removes unused struct fields above the DataFrame. */
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
            "This session has lost harness's rule: read the tables in the session that SparkJob.on was given");
    }

    /** Returns the rows as Python plans them: a DataFrame with the columns of `readSchema`. */
    Dataset frame() {
        Map request = Answers.request("plan", table.session);
        request.put("table", table.number);
        ArrayList names = new ArrayList();
        for (int i = 0; i < wanted.length(); i++) {
            names.add(wanted.fields()[i].name());
        }
        request.put("columns", names);
        request.put("filters", describe(filters));
        request.put("options", options.asCaseSensitiveMap());
        return (Dataset) Answers.get(request);
    }

    /** Returns filters as lists and maps for JSON. An unsupported expression is an empty map. */
    private static List describe(Predicate[] filters) {
        ArrayList descriptions = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            descriptions.add(describe(filters[i]));
        }
        return descriptions;
    }

    private static Map describe(Expression expression) {
        LinkedHashMap description = new LinkedHashMap();
        if (expression instanceof NamedReference) {
            description.put("column", ((NamedReference) expression).fieldNames());
        } else if (expression instanceof Literal) {
            return literal((Literal) expression);
        } else if (expression instanceof Predicate) {
            description.put("op", ((Predicate) expression).name());
            Expression[] children = expression.children();
            ArrayList parts = new ArrayList();
            for (int i = 0; i < children.length; i++) {
                parts.add(describe(children[i]));
            }
            description.put("parts", parts);
        }
        return description;
    }

    /** Returns a Catalyst value (days, micros, unscaled numbers) as text, so that numbers keep all digits. */
    private static Map literal(Literal literal) {
        Object value = literal.value();
        boolean isNumber = value instanceof Number || value instanceof Boolean || value instanceof Decimal;
        if (!isNumber && !(value instanceof UTF8String)) {
            return Collections.emptyMap();
        }
        LinkedHashMap description = new LinkedHashMap();
        description.put("value", value.toString());
        description.put("type", literal.dataType().simpleString());
        return description;
    }
}
