package harness.jobs;

import java.util.ArrayList;
import java.util.Arrays;
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

/** `spark_catalog`: harness's tables before those of Spark's own session catalog. */
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
        ArrayList found = new ArrayList(Arrays.asList(super.listTables(namespace)));
        try {
            Identifier[] others = ((TableCatalog) delegate).listTables(namespace);
            for (int i = 0; i < others.length; i++) {
                if (!found.contains(others[i])) {
                    found.add(others[i]);
                }
            }
        } catch (NoSuchNamespaceException none) {
            return (Identifier[]) found.toArray(new Identifier[found.size()]);
        }
        return (Identifier[]) found.toArray(new Identifier[found.size()]);
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
        ArrayList found = new ArrayList();
        java.util.HashSet seen = new java.util.HashSet();
        String[][] ours = super.listNamespaces(parent);
        String[][] others = new String[0][];
        try {
            others = parent.length == 0
                ? ((SupportsNamespaces) delegate).listNamespaces()
                : new String[0][];
        } catch (NoSuchNamespaceException none) {
            others = new String[0][];
        }
        for (int i = 0; i < ours.length + others.length; i++) {
            String[] one = i < ours.length ? ours[i] : others[i - ours.length];
            if (seen.add(Arrays.asList(one))) {
                found.add(one);
            }
        }
        return (String[][]) found.toArray(new String[found.size()][]);
    }

    public void createNamespace(String[] namespace, java.util.Map metadata) {}
}
