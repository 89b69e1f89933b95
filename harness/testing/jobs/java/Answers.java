package harness.jobs;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.unsafe.Platform;

/** Questions to Python: a request is JSON, and so is the answer, but for a plan, which is a Dataset. */
public final class Answers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CONDITION = "_LEGACY_ERROR_USER_RAISED_EXCEPTION"; // the one that is all message
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

    /** The answer; its `error` is thrown. */
    static JsonNode ask(Map request, Object more) {
        return (JsonNode) told(call(request, more));
    }

    static JsonNode ask(Map request) {
        return ask(request, null);
    }

    /** The answer that is no text. */
    static Object get(Map request) {
        Object answer = call(request, null);
        return answer instanceof String ? told(answer) : answer;
    }

    private static Object call(Map request, Object more) {
        BiFunction function = python;
        if (function == null) {
            throw new IllegalStateException("harness no longer answers: the Python process that registered is gone");
        }
        try {
            return function.apply(JSON.writeValueAsString(request), more);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object told(Object answer) {
        JsonNode told;
        try {
            told = JSON.readTree((String) answer);
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        if (told.has("error")) {
            throw failure(told.get("error").asText());
        }
        return told;
    }

    /** Unchecked to Java's eyes: Spark's own callers know this one everywhere. */
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
