package harness.spark;

import java.io.ByteArrayInputStream;
import java.util.Collections;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NaNvl;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The bounds of stored columns in planned files. They determine which files may hold rows that match some filters.
 *
 * A filter becomes a condition on a file's bounds and constants that is true whenever a row may match the filter, by
 * Spark's own comparisons: NaN is greater than all numbers. A file is kept if a filter is not supported or a bound is
 * unknown.
 */
final class FileBounds {
    private static final int MOST_VALUES = 200; // of IN, as in `harness.metadata.filters.predicate`

    private final byte[] stream;
    private final StructType known;
    private final StructType data;
    private final StructType constants;

    /**
     * Reads `stream`, an Arrow IPC stream with one row per file. Its columns are `lower i` and `upper i`, the bounds of
     * column i of `data` in the type in which Spark reads it, null if unknown; and whether the file may hold nulls
     * (`nulls i`) and other values (`values i`).
     */
    FileBounds(byte[] stream, StructType data, StructType constants) throws Exception {
        this.stream = stream;
        this.data = data;
        this.constants = constants;
        BufferAllocator memory = allocator();
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
        try {
            known = ArrowUtils.fromArrowSchema(reader.getVectorSchemaRoot().getSchema());
        } finally {
            reader.close();
            memory.close();
        }
    }

    /**
     * Returns for each file whether it may hold a matching row, or null if all files may. `values`: the files'
     * constants.
     */
    boolean[] mayHold(scala.collection.immutable.Seq filters, InternalRow[] values) {
        Expression wanted = null;
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            wanted = both(wanted, condition((Expression) each.next()));
        }
        return wanted == null ? null : kept(wanted, values);
    }

    private boolean[] kept(Expression wanted, InternalRow[] values) {
        InterpretedPredicate predicate = new InterpretedPredicate(wanted);
        predicate.initialize(0);
        boolean[] kept = new boolean[values.length];
        BufferAllocator memory = allocator();
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
        int file = 0;
        try {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            ColumnVector[] columns = new ColumnVector[known.length()];
            while (reader.loadNextBatch()) {
                for (int i = 0; i < columns.length; i++) {
                    columns[i] = new ArrowColumnVector(root.getVector(i));
                }
                ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
                for (int row = 0; row < root.getRowCount(); row++) {
                    kept[file] = holds(predicate, new JoinedRow(values[file], batch.getRow(row)));
                    file++;
                }
            }
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        } finally {
            close(reader);
            memory.close();
        }
        return kept;
    }

    /** A condition that fails counts as true: the query fails when it reads the rows, if it reads any. */
    private static boolean holds(InterpretedPredicate predicate, InternalRow row) {
        try {
            return predicate.eval(row);
        } catch (RuntimeException error) {
            return true;
        }
    }

    /** Returns a condition that is true whenever a row may match the filter, or null if the filter is not supported. */
    private Expression condition(Expression filter) {
        if (filter instanceof And) {
            return both(condition(((And) filter).left()), condition(((And) filter).right()));
        }
        if (filter instanceof Or) {
            Expression left = condition(((Or) filter).left());
            Expression right = left == null ? null : condition(((Or) filter).right());
            return right == null ? null : new Or(left, right);
        }
        if (isOnConstants(filter)) {
            return (Expression) filter.transform(new PlannedFileIndex.Binding(constants));
        }
        if (filter instanceof IsNull) {
            return fact("nulls", ((IsNull) filter).child());
        }
        if (filter instanceof IsNotNull) {
            return fact("values", ((IsNotNull) filter).child());
        }
        if (filter instanceof EqualTo) {
            Expression left = ((EqualTo) filter).left();
            Expression right = ((EqualTo) filter).right();
            return isFixed(left) ? equal(right, left) : equal(left, right);
        }
        if (filter instanceof LessThan || filter instanceof LessThanOrEqual) {
            BinaryComparison ascending = (BinaryComparison) filter;
            return below((Expression) ascending.left(), (Expression) ascending.right(), filter instanceof LessThan);
        }
        if (filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual) {
            BinaryComparison descending = (BinaryComparison) filter;
            return below((Expression) descending.right(), (Expression) descending.left(), filter instanceof GreaterThan);
        }
        if (filter instanceof In) {
            scala.collection.immutable.Seq list = ((In) filter).list();
            return any(((In) filter).value(), list.iterator(), list.length(), false);
        }
        if (filter instanceof InSet) {
            scala.collection.immutable.Set set = ((InSet) filter).hset();
            return any(((InSet) filter).child(), set.iterator(), set.size(), true);
        }
        if (filter instanceof StartsWith) {
            return starts(((StartsWith) filter).left(), ((StartsWith) filter).right());
        }
        if (filter.dataType() instanceof BooleanType) { // the column itself is a condition
            return filter instanceof Not
                ? equal(((Not) filter).child(), new Literal(Boolean.FALSE, filter.dataType()))
                : equal(filter, new Literal(Boolean.TRUE, filter.dataType()));
        }
        return null;
    }

    /**
     * Returns a condition for whether one value may be less than another, one of them a column. `strictly`: not equal.
     */
    private Expression below(Expression left, Expression right, boolean strictly) {
        boolean isAbove = isFixed(left);
        Expression bound = isAbove ? bound("upper", right) : isFixed(right) ? bound("lower", left) : null;
        if (bound == null) {
            return null;
        }
        Expression low = isAbove ? left : bound;
        Expression high = isAbove ? bound : right;
        Expression compared = strictly ? (Expression) new LessThan(low, high) : new LessThanOrEqual(low, high);
        return both(fact("values", isAbove ? right : left), new Or(new IsNull(bound), compared));
    }

    private Expression equal(Expression column, Expression value) {
        Expression low = below(column, value, false);
        return low == null ? null : both(low, below(value, column, false));
    }

    private Expression any(Expression column, scala.collection.Iterator values, int count, boolean raw) {
        Expression any = null;
        while (count <= MOST_VALUES && values.hasNext()) {
            Object value = values.next();
            Expression fixed = raw ? new Literal(value, column.dataType()) : (Expression) value;
            Expression one = equal(column, fixed);
            if (one == null) {
                return null;
            }
            any = any == null ? one : new Or(any, one);
        }
        return any == null ? fact("values", column) : any;
    }

    private Expression starts(Expression column, Expression prefix) {
        Expression low = bound("lower", column);
        Expression notBelow = isFixed(prefix) ? below(prefix, column, false) : null;
        if (low == null || notBelow == null) {
            return null;
        }
        Expression notAbove = new Or(new LessThanOrEqual(low, prefix), new StartsWith(low, prefix));
        return both(notBelow, new Or(new IsNull(low), notAbove));
    }

    private static Expression both(Expression left, Expression right) {
        return left == null ? right : right == null ? left : new And(left, right);
    }

    private static boolean isFixed(Expression value) {
        return value.foldable();
    }

    private boolean isOnConstants(Expression filter) {
        scala.collection.Iterator used = filter.references().iterator();
        boolean any = used.hasNext();
        while (used.hasNext()) {
            if (constants.getFieldIndex(((Attribute) used.next()).name()).isEmpty()) {
                return false;
            }
        }
        return any && filter.deterministic();
    }

    /** Returns whether a column may be null, or may be another value. `value` is null exactly if the column is. */
    private Expression fact(String which, Expression value) {
        AttributeReference column = column(value);
        return column == null ? null : reference(which, column);
    }

    /** Returns a bound of a column, or of an expression that never decreases if the column increases. */
    private Expression bound(String which, Expression value) {
        AttributeReference column = column(value);
        Expression bound = column == null ? null : reference(which, column);
        if (bound == null || !bound.dataType().equals(column.dataType())) {
            return null;
        }
        return as(value, bound);
    }

    private static Expression as(Expression value, Expression bound) {
        if (value instanceof Cast) {
            Expression inner = as(((Cast) value).child(), bound);
            return (Expression) value.withNewChildren(PlannedFileIndex.sequence(Collections.singletonList(inner)));
        }
        return value instanceof NaNvl ? as(((NaNvl) value).left(), bound) : bound;
    }

    /** Returns the column of a value: plain, widened, or protected from pushdown (`columns.converted` in Python). */
    private static AttributeReference column(Expression value) {
        if (value instanceof AttributeReference) {
            return (AttributeReference) value;
        }
        if (value instanceof NaNvl && ((NaNvl) value).left().semanticEquals(((NaNvl) value).right())) {
            return column(((NaNvl) value).left());
        }
        if (value instanceof Cast) {
            Expression child = ((Cast) value).child();
            boolean numbers = child.dataType() instanceof NumericType && value.dataType() instanceof NumericType;
            return numbers && Cast$.MODULE$.canUpCast(child.dataType(), value.dataType()) ? column(child) : null;
        }
        return null;
    }

    private Expression reference(String which, AttributeReference column) {
        scala.Option place = data.getFieldIndex(column.name());
        scala.Option found = place.isEmpty() ? place : known.getFieldIndex(which + " " + place.get());
        if (found.isEmpty()) {
            return null;
        }
        int at = ((Integer) found.get()).intValue();
        return new BoundReference(constants.length() + at, known.fields()[at].dataType(), true);
    }

    private static BufferAllocator allocator() {
        return ArrowUtils.rootAllocator().newChildAllocator("harness file bounds", 0, Long.MAX_VALUE);
    }

    private static void close(ArrowStreamReader reader) {
        try {
            reader.close();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
