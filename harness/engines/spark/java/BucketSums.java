package harness.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;

/**
 * Counts and sums of row hashes by bucket, in arrays instead of Spark's hash table, because every row has a bucket and
 * there are few buckets. It is twice as fast as GROUP BY, and its sums have 128 bits.
 */
public final class BucketSums {
    /** The words of a bucket: the number of rows, then the low and high word of the sum of each lane. */
    private static final int WORDS = 5;
    private static final int MOST_SENT_TO_DRIVER = 256;

    private BucketSums() {}

    /**
     * Returns the words of each of the 1 << `bits` buckets in turn, big-endian. The low bits of column `by` are the
     * bucket.
     */
    public static byte[] of(Dataset frame, int first, int second, int by, int bits) {
        JavaRDD rows = frame.queryExecution().toRdd().toJavaRDD();
        int parts = rows.getNumPartitions();
        long[] sums = parts == 0
            ? new long[WORDS << bits]
            : (long[]) rows.mapPartitions(new Sum(first, second, by, bits))
                .treeReduce(new Merge(), parts > MOST_SENT_TO_DRIVER ? 2 : 1);
        ByteBuffer bytes = ByteBuffer.allocate(sums.length * 8);
        bytes.asLongBuffer().put(sums);
        return bytes.array();
    }

    private static void add(long[] sums, int place, long low, long high) {
        long sum = sums[place] + low;
        sums[place + 1] += high + (Long.compareUnsigned(sum, low) < 0 ? 1L : 0L);
        sums[place] = sum;
    }

    /** Computes the sums of one partition. */
    public static final class Sum implements FlatMapFunction, Serializable {
        private final int first;
        private final int second;
        private final int by;
        private final int bits;

        Sum(int first, int second, int by, int bits) {
            this.first = first;
            this.second = second;
            this.by = by;
            this.bits = bits;
        }

        public Iterator call(Object partition) {
            Iterator rows = (Iterator) partition;
            long[] sums = new long[WORDS << bits];
            int mask = (1 << bits) - 1;
            while (rows.hasNext()) {
                InternalRow row = (InternalRow) rows.next();
                int place = ((int) row.getLong(by) & mask) * WORDS;
                sums[place]++;
                add(sums, place + 1, row.getLong(first), 0L);
                add(sums, place + 3, row.getLong(second), 0L);
            }
            return Collections.singletonList(sums).iterator();
        }
    }

    /** Adds the sums of two partitions. */
    public static final class Merge implements Function2, Serializable {
        public Object call(Object left, Object right) {
            long[] sums = (long[]) left;
            long[] others = (long[]) right;
            for (int place = 0; place < sums.length; place += WORDS) {
                sums[place] += others[place];
                add(sums, place + 1, others[place + 1], others[place + 2]);
                add(sums, place + 3, others[place + 3], others[place + 4]);
            }
            return sums;
        }
    }
}
