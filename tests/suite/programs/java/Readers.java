import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.delta.kernel.Scan;
import io.delta.kernel.ScanBuilder;
import io.delta.kernel.Snapshot;
import io.delta.kernel.SnapshotBuilder;
import io.delta.kernel.TableManager;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.MapValue;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.exceptions.UnsupportedProtocolVersionException;
import io.delta.kernel.exceptions.UnsupportedTableFeatureException;
import io.delta.kernel.expressions.And;
import io.delta.kernel.expressions.Column;
import io.delta.kernel.expressions.Literal;
import io.delta.kernel.expressions.Or;
import io.delta.kernel.expressions.Predicate;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.ArrayType;
import io.delta.kernel.types.BinaryType;
import io.delta.kernel.types.BooleanType;
import io.delta.kernel.types.ByteType;
import io.delta.kernel.types.DataType;
import io.delta.kernel.types.DateType;
import io.delta.kernel.types.DecimalType;
import io.delta.kernel.types.DoubleType;
import io.delta.kernel.types.FloatType;
import io.delta.kernel.types.IntegerType;
import io.delta.kernel.types.LongType;
import io.delta.kernel.types.MapType;
import io.delta.kernel.types.MetadataColumnSpec;
import io.delta.kernel.types.ShortType;
import io.delta.kernel.types.StringType;
import io.delta.kernel.types.StructField;
import io.delta.kernel.types.StructType;
import io.delta.kernel.types.TimestampNTZType;
import io.delta.kernel.types.TimestampType;
import io.delta.kernel.utils.CloseableIterator;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.SnapshotUtil;

/** Two complete readers under test: `iceberg` with Iceberg's generic records, `delta` with Delta Kernel's default engine. */
public final class Readers {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Passes each requested row to the consumer, with its columns by name. */
  private interface Reader {
    void read(JsonNode asked, Consumer<Map<String, Object>> rows) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err); // the libraries' own words are no answers
    Configuration configuration = new Configuration();
    boolean iceberg = arguments[0].equals("iceberg");
    Reader reader = iceberg ? new Iceberg(configuration) : new Delta(DefaultEngine.create(configuration));
    ObjectNode hello = JSON.createObjectNode().put("language", "Java").put("rows", "jsonl");
    hello.put("version", iceberg ? IcebergBuild.version() : Engine.class.getPackage().getImplementationVersion());
    hello.put("homepage", iceberg ? "https://iceberg.apache.org" : "https://docs.delta.io/delta-kernel");
    hello.putArray("ops").add("read").add("count");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      JsonNode asked = JSON.readTree(line);
      answers.println(asked.get("op").asText().equals("hello") ? hello : answer(reader, asked));
    }
  }

  private static ObjectNode answer(Reader reader, JsonNode asked) {
    ObjectNode answer = JSON.createObjectNode();
    answer.set("id", asked.get("id"));
    try {
      if (asked.get("op").asText().equals("count")) {
        long[] count = {0};
        reader.read(asked, row -> count[0]++);
        return answer.put("count", count[0]);
      }
      try (BufferedWriter output = Files.newBufferedWriter(Path.of(asked.get("output").asText()))) {
        reader.read(asked, row -> write(output, row));
      }
      return answer.set("rows", asked.get("output"));
    } catch (UnsupportedOperationException | UnsupportedProtocolVersionException | UnsupportedTableFeatureException declined) {
      return answer.put("unsupported", String.valueOf(declined.getMessage()));
    } catch (Throwable error) {
      Throwable cause = error;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      answer.put("error", error.getClass().getSimpleName()).put("panic", error instanceof Error);
      return answer.put("message", error.getMessage() + (cause == error ? "" : ": " + cause));
    }
  }

  private static void write(BufferedWriter output, Map<String, Object> row) {
    try {
      output.write(JSON.writeValueAsString(row));
      output.newLine();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The filter as JSON, or null if there is no filter. */
  private static JsonNode filter(JsonNode asked) {
    if (asked.get("where").isNull()) {
      return null;
    }
    if (asked.get("predicate").isNull()) {
      throw new UnsupportedOperationException("No expression says " + asked.get("where").asText());
    }
    return asked.get("predicate");
  }

  /** The requested columns, or null for all columns. */
  private static List<String> columns(JsonNode asked) {
    return !asked.hasNonNull("columns") ? null : Arrays.asList(JSON.convertValue(asked.get("columns"), String[].class));
  }

  private static void checkFormat(JsonNode asked, String format) {
    if (!asked.get("table").get("format").asText().equals(format)) {
      throw new UnsupportedOperationException("This reads tables of " + format + " alone");
    }
  }

  private record Iceberg(Configuration configuration) implements Reader {
    @Override
    public void read(JsonNode asked, Consumer<Map<String, Object>> rows) throws Exception {
      checkFormat(asked, "iceberg");
      String metadata = asked.get("table").get("metadata_path").asText();
      Table table = new BaseTable(new StaticTableOperations(metadata, new HadoopFileIO(configuration)), metadata);
      IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
      JsonNode at = asked.get("table").get("at");
      Schema schema = table.schema();
      if (!at.isNull()) {
        String kind = at.get("kind").asText();
        long snapshot = snapshot(table, kind, at.get("value"));
        schema = kind.equals("ref") // a branch has the schema of the table
            ? SnapshotUtil.schemaFor(table, at.get("value").asText()) : SnapshotUtil.schemaFor(table, snapshot);
        scan = scan.useSnapshot(snapshot).project(schema);
      }
      JsonNode filter = filter(asked);
      if (filter != null) {
        scan = scan.where(ExpressionParser.fromJson(filter.toString()));
      }
      List<String> columns = columns(asked);
      if (columns != null && columns.stream().anyMatch(MetadataColumns::isMetadataColumn)) {
        List<Types.NestedField> fields = new ArrayList<>(schema.columns());
        columns.stream().filter(MetadataColumns::isMetadataColumn)
            .forEach(name -> fields.add(MetadataColumns.metadataColumn(table, name)));
        scan = scan.project(new Schema(fields));
      } else if (columns != null) {
        scan = scan.select(columns);
      }
      List<String> shown = columns != null ? columns : schema.columns().stream().map(Types.NestedField::name).toList();
      try (CloseableIterable<Record> records = scan.build()) {
        for (Record record : records) {
          Map<String, Object> found = struct(record); // with columns that deletes and the filter need
          Map<String, Object> row = new LinkedHashMap<>();
          shown.forEach(name -> row.put(name, found.get(name)));
          rows.accept(row);
        }
      }
    }

    private static long snapshot(Table table, String kind, JsonNode value) {
      if (kind.equals("timestamp_ms")) {
        return SnapshotUtil.snapshotIdAsOfTime(table, value.asLong());
      }
      if (kind.equals("ref") && !table.refs().containsKey(value.asText())) {
        throw new IllegalArgumentException("There is no branch or tag " + value.asText());
      }
      return kind.equals("ref") ? table.refs().get(value.asText()).snapshotId() : value.asLong();
    }

    private static Map<String, Object> struct(Record record) {
      Map<String, Object> found = new LinkedHashMap<>();
      for (int place = 0; place < record.size(); place++) {
        Types.NestedField field = record.struct().fields().get(place);
        found.put(field.name(), plain(field.type(), record.get(place)));
      }
      return found;
    }

    private static Object plain(Type type, Object value) {
      if (value == null) {
        return null;
      }
      switch (type.typeId()) {
        case DATE:
          return ((LocalDate) value).toEpochDay();
        case TIME:
          return ((LocalTime) value).toNanoOfDay() / 1000;
        case TIMESTAMP:
          return since(value, 1_000_000);
        case TIMESTAMP_NANO:
          return since(value, 1_000_000_000);
        case DECIMAL:
          return ((BigDecimal) value).toPlainString();
        case UUID:
          return ((UUID) value).toString();
        case FIXED:
          return HexFormat.of().formatHex((byte[]) value);
        case BINARY:
        case GEOMETRY:
        case GEOGRAPHY:
          byte[] bytes = new byte[((ByteBuffer) value).remaining()];
          ((ByteBuffer) value).duplicate().get(bytes);
          return HexFormat.of().formatHex(bytes);
        case STRUCT:
          return struct((Record) value);
        case LIST:
          List<Object> items = new ArrayList<>();
          ((List<?>) value).forEach(item -> items.add(plain(type.asListType().elementType(), item)));
          return items;
        case MAP:
          List<Object> entries = new ArrayList<>();
          Types.MapType map = type.asMapType();
          ((Map<?, ?>) value).forEach((key, item) ->
              entries.add(Arrays.asList(plain(map.keyType(), key), plain(map.valueType(), item))));
          return entries;
        case VARIANT:
          throw new UnsupportedOperationException("The library has no JSON for a variant");
        default:
          return type.typeId() == Type.TypeID.STRING ? value.toString() : value;
      }
    }

    private static long since(Object moment, long unitsOfASecond) {
      LocalDateTime time = moment instanceof OffsetDateTime zoned
          ? zoned.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
          : (LocalDateTime) moment;
      return time.toEpochSecond(ZoneOffset.UTC) * unitsOfASecond + time.getNano() * unitsOfASecond / 1_000_000_000;
    }
  }

  private record Delta(Engine engine) implements Reader {
    private static final Map<String, MetadataColumnSpec> LINEAGE =
        Map.of("_row_id", MetadataColumnSpec.ROW_ID, "_row_commit_version", MetadataColumnSpec.ROW_COMMIT_VERSION);

    @Override
    public void read(JsonNode asked, Consumer<Map<String, Object>> rows) throws Exception {
      checkFormat(asked, "delta");
      Snapshot snapshot = snapshot(asked.get("table"));
      List<String> columns = columns(asked);
      Set<String> used = new LinkedHashSet<>(columns == null ? snapshot.getSchema().fieldNames() : columns);
      ScanBuilder builder = snapshot.getScanBuilder();
      JsonNode filter = filter(asked);
      if (filter != null) {
        used.addAll(terms(filter, snapshot.getSchema()));
        builder = builder.withFilter(predicate(filter, snapshot.getSchema()));
      }
      StructType schema = new StructType();
      for (String name : used) {
        schema = LINEAGE.containsKey(name) && snapshot.getSchema().indexOf(name) < 0
            ? schema.addMetadataColumn(name, LINEAGE.get(name))
            : schema.add(snapshot.getSchema().get(name));
      }
      Scan scan = builder.withReadSchema(schema).build();
      List<String> shown = columns == null ? snapshot.getSchema().fieldNames() : columns;
      Row state = scan.getScanState(engine);
      StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
      try (CloseableIterator<Row> files = Utils.intoRows(scan.getScanFiles(engine))) {
        while (files.hasNext()) {
          Row file = files.next();
          CloseableIterator<ColumnarBatch> data = engine.getParquetHandler().readParquetFiles(
              Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file)), physical, Optional.empty())
              .map(FileReadResult::getData);
          try (CloseableIterator<FilteredColumnarBatch> batches = Scan.transformPhysicalData(engine, state, file, data)) {
            while (batches.hasNext()) {
              give(batches.next(), scan.getRemainingFilter(), shown, rows);
            }
          }
        }
      }
    }

    private Snapshot snapshot(JsonNode asked) {
      String location = asked.get("location").asText();
      SnapshotBuilder builder = TableManager.loadSnapshot(location);
      JsonNode at = asked.get("at");
      if (at.isNull()) {
        return builder.build(engine);
      }
      long value = at.get("value").asLong();
      switch (at.get("kind").asText()) {
        case "version":
          return builder.atVersion(value).build(engine);
        case "timestamp_ms":
          return builder.atTimestamp(value, TableManager.loadSnapshot(location).build(engine)).build(engine);
        default:
          throw new UnsupportedOperationException("No Delta table is read by " + at.get("kind").asText());
      }
    }

    /** Passes on the rows of a batch that are not deleted and that match the rest of the filter. */
    private void give(
        FilteredColumnarBatch batch, Optional<Predicate> filter, List<String> shown, Consumer<Map<String, Object>> rows) {
      ColumnarBatch data = batch.getData();
      Optional<ColumnVector> kept = batch.getSelectionVector();
      if (filter.isPresent()) {
        kept = Optional.of(engine.getExpressionHandler().getPredicateEvaluator(data.getSchema(), filter.get()).eval(data, kept));
      }
      for (int row = 0; row < data.getSize(); row++) {
        if (kept.isPresent() && (kept.get().isNullAt(row) || !kept.get().getBoolean(row))) {
          continue;
        }
        Map<String, Object> found = new LinkedHashMap<>();
        for (String name : shown) {
          int place = data.getSchema().indexOf(name);
          found.put(name, plain(data.getSchema().at(place).getDataType(), data.getColumnVector(place), row));
        }
        rows.accept(found);
      }
    }

    /** type: the type with the table's names, which may differ from the vector's own type. */
    private static Object plain(DataType type, ColumnVector vector, int row) {
      if (vector.isNullAt(row)) {
        return null;
      } else if (type instanceof BooleanType) {
        return vector.getBoolean(row);
      } else if (type instanceof ByteType) {
        return vector.getByte(row);
      } else if (type instanceof ShortType) {
        return vector.getShort(row);
      } else if (type instanceof IntegerType || type instanceof DateType) {
        return vector.getInt(row);
      } else if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
        return vector.getLong(row);
      } else if (type instanceof FloatType) {
        return vector.getFloat(row);
      } else if (type instanceof DoubleType) {
        return vector.getDouble(row);
      } else if (type instanceof StringType) {
        return vector.getString(row);
      } else if (type instanceof DecimalType) {
        return vector.getDecimal(row).toPlainString();
      } else if (type instanceof BinaryType) {
        return HexFormat.of().formatHex(vector.getBinary(row));
      } else if (type instanceof StructType struct) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int place = 0; place < struct.length(); place++) {
          StructField field = struct.at(place);
          found.put(field.getName(), plain(field.getDataType(), vector.getChild(place), row));
        }
        return found;
      } else if (type instanceof ArrayType array) {
        return items(array.getElementType(), vector.getArray(row).getElements(), vector.getArray(row).getSize());
      } else if (type instanceof MapType map) {
        MapValue value = vector.getMap(row);
        List<Object> keys = items(map.getKeyType(), value.getKeys(), value.getSize());
        List<Object> values = items(map.getValueType(), value.getValues(), value.getSize());
        List<Object> entries = new ArrayList<>();
        for (int place = 0; place < keys.size(); place++) {
          entries.add(Arrays.asList(keys.get(place), values.get(place)));
        }
        return entries;
      }
      throw new UnsupportedOperationException("The library has no values of the type " + type);
    }

    private static List<Object> items(DataType type, ColumnVector vector, int size) {
      List<Object> found = new ArrayList<>();
      for (int place = 0; place < size; place++) {
        found.add(plain(type, vector, place));
      }
      return found;
    }

    /** The top-level columns of a filter. */
    private static Set<String> terms(JsonNode filter, StructType schema) {
      Set<String> found = new LinkedHashSet<>();
      filter.findValuesAsText("term").forEach(term -> found.add(path(term, schema)[0]));
      return found;
    }

    private static String[] path(String term, StructType schema) {
      return schema.indexOf(term) < 0 ? term.split("\\.") : new String[] {term};
    }

    private static Predicate predicate(JsonNode said, StructType schema) {
      String kind = said.get("type").asText();
      switch (kind) {
        case "and":
          return new And(predicate(said.get("left"), schema), predicate(said.get("right"), schema));
        case "or":
          return new Or(predicate(said.get("left"), schema), predicate(said.get("right"), schema));
        case "not":
          return new Predicate("NOT", predicate(said.get("child"), schema));
        default:
      }
      String[] path = path(said.get("term").asText(), schema);
      Column column = new Column(path);
      DataType type = schema;
      for (String name : path) {
        type = ((StructType) type).get(name).getDataType();
      }
      switch (kind) {
        case "is-null":
          return new Predicate("IS_NULL", column);
        case "in":
          Predicate any = io.delta.kernel.expressions.AlwaysFalse.ALWAYS_FALSE;
          for (JsonNode value : said.get("values")) {
            any = new Or(any, new Predicate("=", column, literal(value, type)));
          }
          return any;
        case "eq":
          return new Predicate("=", column, literal(said.get("value"), type));
        case "not-eq":
          return new Predicate("NOT", new Predicate("=", column, literal(said.get("value"), type)));
        case "lt":
          return new Predicate("<", column, literal(said.get("value"), type));
        case "lt-eq":
          return new Predicate("<=", column, literal(said.get("value"), type));
        case "gt":
          return new Predicate(">", column, literal(said.get("value"), type));
        case "gt-eq":
          return new Predicate(">=", column, literal(said.get("value"), type));
        case "starts-with":
          return new Predicate("STARTS_WITH", column, literal(said.get("value"), type));
        default:
          throw new UnsupportedOperationException("Delta Kernel has no " + kind);
      }
    }

    private static long whole(JsonNode value, long most) {
      if (!value.canConvertToLong() || !value.isIntegralNumber() || Math.abs(value.asLong()) > most) {
        throw new UnsupportedOperationException("No literal of the column's type is " + value);
      }
      return value.asLong();
    }

    private static Literal literal(JsonNode value, DataType type) {
      if (type instanceof BooleanType) {
        return Literal.ofBoolean(value.asBoolean());
      } else if (type instanceof ByteType) {
        return Literal.ofByte((byte) whole(value, Byte.MAX_VALUE));
      } else if (type instanceof ShortType) {
        return Literal.ofShort((short) whole(value, Short.MAX_VALUE));
      } else if (type instanceof IntegerType) {
        return Literal.ofInt((int) whole(value, Integer.MAX_VALUE));
      } else if (type instanceof LongType) {
        return Literal.ofLong(whole(value, Long.MAX_VALUE));
      } else if (type instanceof FloatType) {
        return Literal.ofFloat((float) value.asDouble());
      } else if (type instanceof DoubleType) {
        return Literal.ofDouble(value.asDouble());
      } else if (type instanceof StringType) {
        return Literal.ofString(value.asText());
      } else if (type instanceof DateType) {
        return Literal.ofDate((int) LocalDate.parse(value.asText()).toEpochDay());
      } else if (type instanceof DecimalType decimal) {
        BigDecimal number = new BigDecimal(value.asText()).stripTrailingZeros();
        if (number.scale() <= decimal.getScale()) {
          number = number.setScale(decimal.getScale());
          return Literal.ofDecimal(number, decimal.getPrecision(), decimal.getScale());
        }
      }
      throw new UnsupportedOperationException("No literal is of the type " + type);
    }
  }
}
