package harness.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.buffer.ImmutableRoaringBitmap;

/** The deleted positions of one file: a 64-bit roaring bitmap in the portable format, with ascending keys. */
public final class DeletedPositions {
    private final int[] keys;
    private final ImmutableRoaringBitmap[] parts;

    public DeletedPositions(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int count = (int) buffer.getLong(0);
        int at = 8;
        keys = new int[count];
        parts = new ImmutableRoaringBitmap[count];
        for (int i = 0; i < count; i++) {
            keys[i] = buffer.getInt(at);
            buffer.position(at + 4);
            parts[i] = new ImmutableRoaringBitmap(buffer);
            at += 4 + parts[i].serializedSizeInBytes();
        }
    }

    public boolean contains(long position) {
        for (int i = 0; i < keys.length; i++) {
            if (keys[i] == (int) (position >>> 32)) {
                return parts[i].contains((int) position);
            }
        }
        return false;
    }

    /**
     * Replaces each deleted position among the first `rows` values by its complement, which is negative.
     * Positions must ascend. If they are contiguous, only the deleted ones are visited.
     */
    public void mark(WritableColumnVector positions, int rows) {
        if (rows == 0) {
            return;
        }
        if (positions.hasNull()) {
            throw new IllegalStateException("Spark's reader did not number the rows of a file");
        }
        long first = positions.getLong(0);
        long last = positions.getLong(rows - 1);
        if (last - first != rows - 1) {
            for (int i = 0; i < rows; i++) {
                if (contains(positions.getLong(i))) {
                    positions.putLong(i, ~positions.getLong(i));
                }
            }
            return;
        }
        for (int i = 0; i < keys.length; i++) {
            long base = (keys[i] & 0xFFFFFFFFL) << 32;
            if (base > last || base + 0xFFFFFFFFL < first) {
                continue;
            }
            PeekableIntIterator deleted = parts[i].getIntIterator();
            deleted.advanceIfNeeded((int) (Math.max(first, base) - base));
            while (deleted.hasNext()) {
                long position = base + (deleted.next() & 0xFFFFFFFFL);
                if (position > last) {
                    break;
                }
                positions.putLong((int) (position - first), ~position);
            }
        }
    }
}
