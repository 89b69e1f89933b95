package harness.jobs;

import java.util.Collections;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/** The target of a write by path. It has no capabilities, so that Spark calls the source itself. */
final class Target implements Table {
    private final String name;
    private final StructType schema;

    Target(String name, StructType schema) {
        this.name = name;
        this.schema = schema;
    }

    public String name() {
        return name;
    }

    public StructType schema() {
        return schema;
    }

    public Set capabilities() {
        return Collections.emptySet();
    }
}
