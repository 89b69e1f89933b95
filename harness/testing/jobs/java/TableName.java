package harness.jobs;

import org.apache.spark.sql.connector.catalog.Identifier;

/** Replaces `Identifier.of`, which Janino cannot call, because it is a static method of an interface. */
final class TableName implements Identifier {
    private final String[] namespace;
    private final String name;

    TableName(String[] namespace, String name) {
        this.namespace = namespace;
        this.name = name;
    }

    public String[] namespace() {
        return namespace;
    }

    public String name() {
        return name;
    }
}
