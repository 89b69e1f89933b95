package harness.jobs;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;

/** `table_changes(table, first, last)` and `table_changes_by_path`: the change data feed of a Delta table. */
public final class ChangesFunction extends scala.runtime.AbstractFunction1 {
    private final String session;
    private final String name;

    private ChangesFunction(String session, String name) {
        this.session = session;
        this.name = name;
    }

    public static void addTo(SparkSession spark, String session) {
        String[] names = new String[] {"table_changes", "table_changes_by_path"};
        for (int i = 0; i < names.length; i++) {
            spark.sessionState().tableFunctionRegistry().createOrReplaceTempFunction(
                names[i], new ChangesFunction(session, names[i]), "scala_udf");
        }
    }

    public Object apply(Object arguments) {
        scala.collection.immutable.Seq given = (scala.collection.immutable.Seq) arguments;
        ArrayList values = new ArrayList();
        ArrayList types = new ArrayList();
        for (int i = 0; i < given.length(); i++) {
            Expression one = (Expression) given.apply(i);
            if (!one.foldable()) {
                throw Answers.failure(name + " takes literals: " + one.sql());
            }
            Object value = one.eval((InternalRow) null);
            values.add(value == null ? null : value.toString());
            types.add(one.dataType().simpleString());
        }
        Map request = Answers.request("changes", session);
        request.put("function", name);
        request.put("values", values);
        request.put("types", types);
        return DataSourceV2Relation$.MODULE$.create(
            new PlannedTable(session, Answers.ask(request)), scala.Option.empty(), scala.Option.empty());
    }
}
