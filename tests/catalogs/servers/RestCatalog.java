import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Scan;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.credentials.ImmutableCredential;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's REST catalog over a JDBC catalog. Prints its port.
 *
 * <p>Arguments: KEY=VALUE. Keys with `vend.` are credentials of tables, keys with `table.` configure tables. Plans of
 * scans have `plan.page` files in an answer, and are made in the background if `plan.submitted` is true.
 */
public class RestCatalog {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> own = new HashMap<>();
    Map<String, Map<String, String>> others = Map.of("vend", new HashMap<>(), "table", new HashMap<>(), "plan", new HashMap<>());
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      String[] key = pair[0].split("\\.", 2);
      if (others.containsKey(key[0])) {
        others.get(key[0]).put(key[1], pair[1]);
      } else {
        own.put(pair[0], pair[1]);
      }
    }
    Map<String, String> vended = others.get("vend");
    Map<String, String> configured = others.get("table");
    int page = Integer.parseInt(others.get("plan").getOrDefault("page", "100"));
    boolean submitted = Boolean.parseBoolean(others.get("plan").get("submitted"));
    Catalog catalog = CatalogUtil.buildIcebergCatalog("server", own, new org.apache.hadoop.conf.Configuration());
    RESTCatalogAdapter adapter = new RESTCatalogAdapter(catalog) {
      @Override
      protected PlanningBehavior planningBehavior() {
        return new PlanningBehavior() {
          @Override
          public int numberFileScanTasksPerPlanTask() {
            return page;
          }

          @Override
          public boolean shouldPlanTableScanAsync(Scan<?, FileScanTask, ?> scan) {
            return submitted;
          }
        };
      }

      @Override
      protected <T extends RESTResponse> T execute(
          HTTPRequest request, Class<T> type, Consumer<ErrorResponse> failed, Consumer<Map<String, String>> headers) {
        T answer = super.execute(request, type, failed, headers);
        if ((vended.isEmpty() && configured.isEmpty()) || !(answer instanceof LoadTableResponse)) {
          return answer;
        }
        LoadTableResponse loaded = (LoadTableResponse) answer;
        LoadTableResponse.Builder changed = LoadTableResponse.builder().withTableMetadata(loaded.tableMetadata()).addAllConfig(configured);
        if (vended.isEmpty()) {
          return type.cast(changed.build());
        }
        Map<String, String> lent = new HashMap<>(vended);
        if (lent.containsKey("lifetime-ms")) {
          long end = System.currentTimeMillis() + Long.parseLong(lent.remove("lifetime-ms"));
          lent.put("s3.session-token-expires-at-ms", Long.toString(end));
        }
        String prefix = loaded.tableMetadata().location();
        return type.cast(changed.addCredential(ImmutableCredential.builder().prefix(prefix).config(lent).build()).build());
      }
    };
    Server server = new Server();
    HttpConfiguration lenient = new HttpConfiguration();
    lenient.setUriCompliance(UriCompliance.UNSAFE); // the parts of a namespace are joined by %1F
    ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(lenient));
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    ServletContextHandler context = new ServletContextHandler();
    context.getServletHandler().setDecodeAmbiguousURIs(true);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    server.setHandler(context);
    server.start();
    System.out.println(connector.getLocalPort());
    server.join();
  }
}
