import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.iceberg.CatalogUtil;
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

/** Iceberg's REST catalog over a JDBC catalog. Prints its port. Arguments: KEY=VALUE; keys with `vend.` apply to tables. */
public class RestCatalog {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> own = new HashMap<>();
    Map<String, String> vended = new HashMap<>();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      (pair[0].startsWith("vend.") ? vended : own).put(pair[0].replaceFirst("^vend\\.", ""), pair[1]);
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("server", own, new org.apache.hadoop.conf.Configuration());
    RESTCatalogAdapter adapter = new RESTCatalogAdapter(catalog) {
      @Override
      protected <T extends RESTResponse> T execute(
          HTTPRequest request, Class<T> type, Consumer<ErrorResponse> failed, Consumer<Map<String, String>> headers) {
        T answer = super.execute(request, type, failed, headers);
        if (vended.isEmpty() || !(answer instanceof LoadTableResponse)) {
          return answer;
        }
        LoadTableResponse loaded = (LoadTableResponse) answer;
        Map<String, String> lent = new HashMap<>(vended);
        if (lent.containsKey("lifetime-ms")) {
          long end = System.currentTimeMillis() + Long.parseLong(lent.remove("lifetime-ms"));
          lent.put("s3.session-token-expires-at-ms", Long.toString(end));
        }
        return type.cast(LoadTableResponse.builder().withTableMetadata(loaded.tableMetadata())
            .addCredential(ImmutableCredential.builder().prefix(loaded.tableMetadata().location()).config(lent).build())
            .build());
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
