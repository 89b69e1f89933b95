package harness.jobs;

import java.util.Arrays;
import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;

/** `spark_catalog`: harness's tables, and then the tables of Spark's own session catalog. */
public final class SessionTables extends NamedTables implements CatalogExtension {
    private CatalogPlugin delegate;

    public void setDelegateCatalog(CatalogPlugin delegate) {
        this.delegate = delegate;
    }

    Table otherwise(Identifier table) throws NoSuchTableException {
        if (table.namespace().length != 1) {
            throw new NoSuchTableException(table);
        }
        return ((TableCatalog) delegate).loadTable(table);
    }

    public boolean dropTable(Identifier table) {
        return super.dropTable(table) || ((TableCatalog) delegate).dropTable(table);
    }

    public Identifier[] listTables(String[] namespace) {
        LinkedHashMap found = new LinkedHashMap();
        put(found, super.listTables(namespace));
        try {
            put(found, ((TableCatalog) delegate).listTables(namespace));
        } catch (NoSuchNamespaceException none) {
            // only harness has the namespace
        }
        return (Identifier[]) found.values().toArray(new Identifier[found.size()]);
    }

    public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
        return ((FunctionCatalog) delegate).listFunctions(namespace);
    }

    public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
        return ((FunctionCatalog) delegate).loadFunction(function);
    }

    public boolean functionExists(Identifier function) {
        return ((FunctionCatalog) delegate).functionExists(function);
    }

    public String[][] listNamespaces(String[] parent) {
        LinkedHashMap found = new LinkedHashMap();
        put(found, super.listNamespaces(parent));
        if (parent.length == 0) {
            try {
                put(found, ((SupportsNamespaces) delegate).listNamespaces());
            } catch (NoSuchNamespaceException none) {
                // Spark has no such namespace
            }
        }
        return (String[][]) found.values().toArray(new String[found.size()][]);
    }

    private static void put(LinkedHashMap found, Identifier[] tables) {
        for (int i = 0; i < tables.length; i++) {
            found.putIfAbsent(tables[i].name(), tables[i]);
        }
    }

    private static void put(LinkedHashMap found, String[][] namespaces) {
        for (int i = 0; i < namespaces.length; i++) {
            found.putIfAbsent(Arrays.asList(namespaces[i]), namespaces[i]);
        }
    }

    public void createNamespace(String[] namespace, java.util.Map metadata) {}
}
