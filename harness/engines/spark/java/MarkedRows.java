package harness.spark;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A reader that marks deleted rows: the position of a deleted row is its complement, which is negative. The cost of a
 * batch depends on its number of deleted rows. Testing each row would cost as much as the scan.
 */
final class MarkedRows extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
    /** The most bytes of a bitmap that is sent with each task. Larger ones are broadcast. */
    private static final int MOST_OF_A_TASK = 1 << 14;

    private final scala.Function1 reader;
    private final int column;
    private final int bitmap;
    private final Broadcast[] large;

    /**
     * `column`: the index of the position column. `bitmap`: the index of the bitmap constant. `large`: the bitmaps that
     * are not in the constants, see `broadcast`.
     */
    MarkedRows(scala.Function1 reader, int column, int bitmap, Broadcast[] large) {
        this.reader = reader;
        this.column = column;
        this.bitmap = bitmap;
        this.large = large;
    }

    /**
     * Replaces large bitmaps in the files' constants by their indexes in the result, so that an executor fetches each
     * bitmap once for all tasks that read its file. An index has four bytes; every bitmap has at least eight.
     */
    static Broadcast[] broadcast(JavaSparkContext context, List constants, int bitmap) {
        ArrayList large = new ArrayList();
        for (int i = 0; i < constants.size(); i++) {
            InternalRow row = (InternalRow) constants.get(i);
            byte[] encoded = row.getBinary(bitmap);
            if (encoded.length > MOST_OF_A_TASK) {
                row.update(bitmap, ByteBuffer.allocate(Integer.BYTES).putInt(large.size()).array());
                large.add(context.broadcast(encoded));
            }
        }
        return (Broadcast[]) large.toArray(new Broadcast[large.size()]);
    }

    public Object apply(Object file) {
        scala.collection.Iterator rows = (scala.collection.Iterator) reader.apply(file);
        byte[] encoded = ((PartitionedFile) file).partitionValues().getBinary(bitmap);
        if (encoded.length == Integer.BYTES) {
            encoded = (byte[]) large[ByteBuffer.wrap(encoded).getInt()].value();
        }
        return new Rows(rows, column, new DeletedPositions(encoded));
    }

    private static final class Rows extends scala.collection.AbstractIterator implements Closeable {
        private final scala.collection.Iterator rows;
        private final int column;
        private final DeletedPositions deleted;

        Rows(scala.collection.Iterator rows, int column, DeletedPositions deleted) {
            this.rows = rows;
            this.column = column;
            this.deleted = deleted;
        }

        public boolean hasNext() {
            return rows.hasNext();
        }

        public Object next() {
            Object found = rows.next();
            if (found instanceof ColumnarBatch) {
                ColumnarBatch batch = (ColumnarBatch) found;
                deleted.mark((WritableColumnVector) batch.column(column), batch.numRows());
            } else if (found instanceof UnsafeRow) {
                UnsafeRow row = (UnsafeRow) found;
                if (deleted.contains(row.getLong(column))) {
                    row.setLong(column, ~row.getLong(column));
                }
            } else { // a row of a batch, which is immutable
                InternalRow row = (InternalRow) found;
                if (deleted.contains(row.getLong(column))) {
                    InternalRow marked = row.copy();
                    marked.setLong(column, ~row.getLong(column));
                    return marked;
                }
            }
            return found;
        }

        public void close() throws IOException {
            if (rows instanceof Closeable) {
                ((Closeable) rows).close();
            }
        }
    }
}
