package harness.jobs;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * Replaces a scan by harness's DataFrame, after columns and filters were pushed into the scan.
 *
 * This cannot happen later: deletes may become joins, which adaptive execution needs in the logical plan.
 */
public final class PlannedReads extends Rule {
    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new Reads());
    }

    /** Adds the rule to a session once. */
    public static void addTo(SparkSession session) {
        scala.collection.immutable.Seq rules = session.experimental().extraOptimizations();
        scala.collection.Iterator each = rules.iterator();
        while (each.hasNext()) {
            if (each.next() instanceof PlannedReads) {
                return;
            }
        }
        session.experimental().extraOptimizations_$eq((scala.collection.immutable.Seq) rules.appended(new PlannedReads()));
    }

    private static final class Reads extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof DataSourceV2ScanRelation
                && ((DataSourceV2ScanRelation) node).scan() instanceof PlannedScan;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node) ? replaced((DataSourceV2ScanRelation) node) : otherwise.apply(node);
        }

        private LogicalPlan replaced(DataSourceV2ScanRelation scan) {
            LogicalPlan rows = ((PlannedScan) scan.scan()).frame().queryExecution().optimizedPlan();
            ArrayList shown = new ArrayList();
            for (int i = 0; i < scan.output().length(); i++) {
                Attribute column = (Attribute) scan.output().apply(i);
                shown.add(new Alias(
                    (Expression) rows.output().apply(i),
                    column.name(),
                    column.exprId(),
                    column.qualifier(),
                    scala.Option.apply(column.metadata()),
                    (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$));
            }
            return new Project(scala.jdk.javaapi.CollectionConverters.asScala(shown).toList(), rows);
        }
    }
}
