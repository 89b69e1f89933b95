package harness.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.buffer.ImmutableRoaringBitmap;

/**
 * Whether a row is deleted by its position, asked for row by row.
 *
 * A thread keeps the bitmap that it asked last, and its current block of 65,536 rows as plain bits, because a task reads
 * the rows of a file in ascending order. A bitmap is known by the identity of its array. That is safe: the array is
 * held as long as it is compared to, so no other can take its place, and Spark never writes to an array that it has
 * handed out. Where Spark copies the array for each row (rows that are not generated code's), each call looks its one
 * row up in the compressed bitmap instead.
 */
public final class DeletedPositions {
    private static final int BLOCK_BITS = 16;
    private static final int BLOCK_WORDS = 1 << (BLOCK_BITS - 6);
    private static final long[] NONE = new long[BLOCK_WORDS];
    private static final ThreadLocal LAST = new ThreadLocal();

    private final byte[] bytes;
    private final int[] keys;
    private final ImmutableRoaringBitmap[] parts;
    private long block = -1L;
    private long[] words = NONE;
    private long[] own = null;

    private DeletedPositions(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int count = (int) buffer.getLong(0);
        int at = 8;
        this.bytes = bytes;
        this.keys = new int[count];
        this.parts = new ImmutableRoaringBitmap[count];
        for (int i = 0; i < count; i++) {
            keys[i] = buffer.getInt(at);
            buffer.position(at + 4);
            parts[i] = new ImmutableRoaringBitmap(buffer);
            at += 4 + parts[i].serializedSizeInBytes();
        }
    }

    /**
     * Whether the row at `position` (from 0) is deleted. `bitmap`: a 64-bit roaring bitmap in the portable format, with
     * ascending keys.
     */
    public static boolean isDeleted(byte[] bitmap, long position) {
        DeletedPositions last = (DeletedPositions) LAST.get();
        if (last == null || last.bytes != bitmap) {
            last = new DeletedPositions(bitmap);
            LAST.set(last);
            return last.contains(position);
        }
        if (position >>> BLOCK_BITS != last.block) {
            last.load(position >>> BLOCK_BITS);
        }
        return (last.words[(int) (position >>> 6) & (BLOCK_WORDS - 1)] & (1L << position)) != 0L;
    }

    private boolean contains(long position) {
        ImmutableRoaringBitmap part = part(position);
        return part != null && part.contains((int) position);
    }

    private ImmutableRoaringBitmap part(long position) {
        int key = (int) (position >>> 32);
        for (int i = 0; i < keys.length; i++) {
            if (keys[i] == key) {
                return parts[i];
            }
        }
        return null;
    }

    private void load(long wanted) {
        long first = wanted << BLOCK_BITS;
        ImmutableRoaringBitmap part = part(first);
        block = wanted;
        words = NONE;
        if (part == null || !part.intersects(first & 0xFFFFFFFFL, (first & 0xFFFFFFFFL) + (1L << BLOCK_BITS))) {
            return;
        }
        if (own == null) {
            own = new long[BLOCK_WORDS];
        }
        java.util.Arrays.fill(own, 0L);
        words = own;
        PeekableIntIterator positions = part.getIntIterator();
        positions.advanceIfNeeded((int) first);
        while (positions.hasNext()) {
            int position = positions.next();
            if (position >>> BLOCK_BITS != (int) first >>> BLOCK_BITS) {
                break;
            }
            words[position >>> 6 & (BLOCK_WORDS - 1)] |= 1L << position;
        }
    }
}
