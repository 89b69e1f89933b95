package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A Spark catalog whose tables are in Python: the job's sources, their metadata tables, and its writes. */
public class NamedTables implements StagingTableCatalog, SupportsNamespaces {
    private String name;
    private String session;

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        this.session = options.get("harness");
    }

    public String name() {
        return name;
    }

    Map request(String what, Identifier table) {
        Map request = Answers.request(what, session);
        request.put("catalog", name);
        request.put("namespace", table.namespace());
        request.put("name", table.name());
        return request;
    }

    private Table loaded(Map request, Identifier table) throws NoSuchTableException {
        JsonNode answer = Answers.ask(request);
        if (answer.has("missing")) {
            return otherwise(table);
        }
        return new PlannedTable(session, answer, identities(answer.get("partitioning")));
    }

    private static Transform[] identities(JsonNode columns) {
        Transform[] result = new Transform[columns == null ? 0 : columns.size()];
        for (int i = 0; i < result.length; i++) {
            result[i] = Expressions.identity(((JsonNode) columns.get(i)).asText());
        }
        return result;
    }

    /** Returns the partitioning as text, for example `days(ts)`. */
    private static List described(Transform[] transforms) {
        ArrayList result = new ArrayList();
        for (int i = 0; i < transforms.length; i++) {
            result.add(transforms[i].name().equals("identity")
                ? transforms[i].references()[0].describe()
                : transforms[i].describe());
        }
        return result;
    }

    /** A table that Python does not have. */
    Table otherwise(Identifier table) throws NoSuchTableException {
        throw new NoSuchTableException(table);
    }

    public Table loadTable(Identifier table) throws NoSuchTableException {
        return loaded(request("load", table), table);
    }

    public Table loadTable(Identifier table, String version) throws NoSuchTableException {
        Map request = request("load", table);
        request.put("version", version);
        return loaded(request, table);
    }

    public Table loadTable(Identifier table, long timestamp) throws NoSuchTableException {
        Map request = request("load", table);
        request.put("timestamp", Long.valueOf(timestamp));
        return loaded(request, table);
    }

    public Table loadTable(Identifier table, Set privileges) throws NoSuchTableException {
        Map request = request("load", table);
        try {
            return loaded(request, table);
        } catch (NoSuchTableException missing) {
            if (!privileges.contains(TableWritePrivilege.INSERT) || privileges.contains(TableWritePrivilege.UPDATE)) {
                throw missing;
            }
            request.put("create", Boolean.TRUE);
            return loaded(request, table);
        }
    }

    private StagedTable staged(
            String mode, Identifier table, StructType schema, Transform[] partitioning, Map properties) {
        Map request = request("stage", table);
        request.put("mode", mode);
        request.put("schema", schema.json());
        request.put("partitioning", described(partitioning));
        request.put("properties", properties);
        return new PlannedTable(session, Answers.ask(request), partitioning);
    }

    public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
        return staged("create", table, CatalogV2Util.v2ColumnsToStructType(columns), partitioning, properties);
    }

    public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
        return staged("replace", table, CatalogV2Util.v2ColumnsToStructType(columns), partitioning, properties);
    }

    public StagedTable stageCreateOrReplace(
            Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
        return staged("createOrReplace", table, CatalogV2Util.v2ColumnsToStructType(columns), partitioning, properties);
    }

    public Table createTable(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
        StagedTable created = stageCreate(table, columns, partitioning, properties);
        created.commitStagedChanges();
        return created;
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        refuse("ALTER TABLE", table);
        return null;
    }

    public boolean dropTable(Identifier table) {
        return Answers.ask(request("drop", table)).get("dropped").asBoolean();
    }

    public void renameTable(Identifier table, Identifier other) {
        refuse("ALTER TABLE … RENAME", table);
    }

    private void refuse(String command, Identifier table) {
        Map request = Answers.request("refuse", session);
        request.put("command", command);
        request.put("name", table.toString());
        Answers.ask(request);
    }

    private List names(String what, String[] namespace) {
        Map request = Answers.request(what, session);
        request.put("catalog", name);
        request.put("namespace", namespace);
        JsonNode answer = Answers.ask(request).get("names");
        ArrayList result = new ArrayList();
        for (int i = 0; i < answer.size(); i++) {
            result.add(((JsonNode) answer.get(i)).asText());
        }
        return result;
    }

    public Identifier[] listTables(String[] namespace) {
        List names = names("tables", namespace);
        Identifier[] result = new Identifier[names.size()];
        for (int i = 0; i < result.length; i++) {
            result[i] = new TableName(namespace, (String) names.get(i));
        }
        return result;
    }

    public String[][] listNamespaces() {
        return listNamespaces(new String[0]);
    }

    public String[][] listNamespaces(String[] parent) {
        List names = names("namespaces", parent);
        String[][] result = new String[names.size()][];
        for (int i = 0; i < result.length; i++) {
            result[i] = (String[]) java.util.Arrays.copyOf(parent, parent.length + 1);
            result[i][parent.length] = (String) names.get(i);
        }
        return result;
    }

    public String[] defaultNamespace() {
        return new String[] {"default"};
    }

    public boolean namespaceExists(String[] namespace) {
        return true;
    }

    public Map loadNamespaceMetadata(String[] namespace) {
        return Collections.emptyMap();
    }

    public void createNamespace(String[] namespace, Map metadata) {}

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {}

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw Answers.failure("Cannot drop a namespace: a job cannot drop the tables of its test");
    }
}
