package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.unsafe.Platform;

/** Requests to Python. Requests and answers are JSON, except that the answer for a plan is a Dataset. */
public final class Answers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CONDITION = "_LEGACY_ERROR_USER_RAISED_EXCEPTION"; // its text is only the message
    private static volatile BiFunction python;

    private Answers() {}

    public static void answerWith(BiFunction function) {
        python = function;
    }

    static Map request(String what, String session) {
        LinkedHashMap request = new LinkedHashMap();
        request.put("do", what);
        request.put("session", session);
        return request;
    }

    /** Returns the answer, or throws its `error`. */
    static JsonNode ask(Map request, Object more) {
        return (JsonNode) parse(call(request, more));
    }

    static JsonNode ask(Map request) {
        return ask(request, null);
    }

    /** Returns the answer to a request for a plan. */
    static Object get(Map request) {
        Object answer = call(request, null);
        return answer instanceof String ? parse(answer) : answer;
    }

    private static Object call(Map request, Object more) {
        BiFunction function = python;
        if (function == null) {
            throw new IllegalStateException("harness no longer answers: its Python process has ended");
        }
        try {
            return function.apply(JSON.writeValueAsString(request), more);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object parse(Object answer) {
        JsonNode parsed;
        try {
            parsed = JSON.readTree((String) answer);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        if (parsed.has("error")) {
            throw failure(parsed.get("error").asText());
        }
        return parsed;
    }

    /** Returns an exception that Java does not check. Spark's callers handle it everywhere. */
    static RuntimeException failure(String message) {
        scala.collection.immutable.Map parameters =
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        Platform.throwException(new AnalysisException(
            message,
            scala.Option.empty(),
            scala.Option.empty(),
            scala.Option.empty(),
            scala.Option.apply(CONDITION),
            (scala.collection.immutable.Map) parameters.updated("errorMessage", message),
            new QueryContext[0]));
        return null;
    }
}
