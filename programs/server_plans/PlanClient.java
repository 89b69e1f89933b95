import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.PrintStream;
import java.util.Map;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.rest.RESTCatalog;

/** Iceberg's own client of REST catalogs, as a client of plan_clients.py. With the argument `version` it prints that. */
public final class PlanClient {
  public static void main(String[] arguments) throws Exception {
    if (arguments.length > 0) {
      System.out.println(IcebergBuild.version());
      return;
    }
    PrintStream answer = System.out;
    System.setOut(System.err);
    ObjectMapper json = new ObjectMapper();
    JsonNode read = json.readTree(System.in);
    ArrayNode ids = json.createArrayNode();
    if (read.has("after")) { // IcebergGenerics reads snapshots
      answer.println("null");
      return;
    }
    try (RESTCatalog catalog = new RESTCatalog()) {
      catalog.initialize("lake", Map.of("uri", read.get("uri").asText(), "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
      Table table = catalog.loadTable(TableIdentifier.parse(read.get("table").asText()));
      IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
      if (read.has("filter")) {
        scan = scan.where(ExpressionParser.fromJson(read.get("filter").toString()));
      }
      if (read.has("columns")) {
        scan = scan.select("id");
      }
      if (read.has("snapshot_id")) {
        scan = scan.useSnapshot(read.get("snapshot_id").asLong());
      }
      if (read.has("branch")) {
        scan = scan.useSnapshot(table.refs().get(read.get("branch").asText()).snapshotId());
      }
      try (CloseableIterable<Record> rows = scan.build()) {
        rows.forEach(row -> ids.add((Long) row.getField("id")));
      }
    }
    answer.println(json.writeValueAsString(ids));
    System.exit(0); // threads of the client may still wait
  }
}
