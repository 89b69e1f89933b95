package harness.jobs;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** Filters as lists and maps, for JSON; an empty map is what Python need not know. */
final class Filters {
    private Filters() {}

    static List described(Predicate[] filters) {
        ArrayList found = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            found.add(described(filters[i]));
        }
        return found;
    }

    private static Map described(Expression expression) {
        LinkedHashMap told = new LinkedHashMap();
        if (expression instanceof NamedReference) {
            told.put("column", ((NamedReference) expression).fieldNames());
        } else if (expression instanceof Literal) {
            return literal((Literal) expression);
        } else if (expression instanceof Predicate) {
            told.put("op", ((Predicate) expression).name());
            Expression[] children = expression.children();
            ArrayList parts = new ArrayList();
            for (int i = 0; i < children.length; i++) {
                parts.add(described(children[i]));
            }
            told.put("parts", parts);
        }
        return told;
    }

    /** A value as Catalyst has it: days, micros, unscaled numbers; of text, so that no number loses digits. */
    private static Map literal(Literal literal) {
        Object value = literal.value();
        boolean isNumber = value instanceof Number || value instanceof Boolean || value instanceof Decimal;
        if (!isNumber && !(value instanceof UTF8String)) {
            return Collections.emptyMap();
        }
        LinkedHashMap told = new LinkedHashMap();
        told.put("value", value.toString());
        told.put("type", literal.dataType().simpleString());
        return told;
    }
}
