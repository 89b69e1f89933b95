package harness.jobs;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * Delta statements that Spark's grammar lacks, translated to queries on metadata tables.
 *
 * This is a proxy, because the parser methods differ between Spark versions. It changes only the text.
 */
public final class Statements implements InvocationHandler {
    private static final Pattern DESCRIBE = Pattern.compile(
        "\\s*DESC(?:RIBE)?\\s+(HISTORY|DETAIL)\\s+(?:TABLE\\s+)?(`.*`|[^\\s;]+|'[^']*'|\"[^\"]*\")(\\s+LIMIT\\s+\\d+)?[\\s;]*",
        Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private final ParserInterface parser;

    private Statements(ParserInterface parser) {
        this.parser = parser;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (arguments != null && arguments.length > 0 && method.getName().startsWith("parsePlan")) {
            arguments[0] = rewritten((String) arguments[0]);
        }
        try {
            return method.invoke(parser, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    static String rewritten(String text) {
        Matcher found = DESCRIBE.matcher(text);
        if (!found.matches()) {
            return text;
        }
        String table = found.group(2);
        if (table.startsWith("'") || table.startsWith("\"")) {
            table = "delta.`" + table.substring(1, table.length() - 1).replace("`", "``") + "`";
        }
        String limit = found.group(3) == null ? "" : found.group(3);
        return "SELECT * FROM " + table + ".`describe " + found.group(1).toLowerCase(java.util.Locale.ROOT) + "`" + limit;
    }

    /** Adds the statements to all sessions that are created from now on. */
    public static void addTo(SparkSessionExtensions extensions) {
        extensions.injectParser(new Parsers());
    }

    private static final class Parsers extends scala.runtime.AbstractFunction2 {
        public Object apply(Object session, Object parser) {
            return Proxy.newProxyInstance(
                Statements.class.getClassLoader(), new Class[] {ParserInterface.class}, new Statements((ParserInterface) parser));
        }
    }
}
