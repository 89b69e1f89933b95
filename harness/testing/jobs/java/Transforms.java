package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;

/** Partitioning as text, `days(ts)`, and back for columns as they are. */
final class Transforms {
    private Transforms() {}

    static List described(Transform[] transforms) {
        ArrayList found = new ArrayList();
        for (int i = 0; i < transforms.length; i++) {
            found.add(transforms[i].name().equals("identity")
                ? transforms[i].references()[0].describe()
                : transforms[i].describe());
        }
        return found;
    }

    static Transform[] of(JsonNode columns) {
        Transform[] found = new Transform[columns == null ? 0 : columns.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = Expressions.identity(((JsonNode) columns.get(i)).asText());
        }
        return found;
    }
}
