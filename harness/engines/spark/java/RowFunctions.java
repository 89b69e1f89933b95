package harness.spark;

/** Functions of one row. They run on the executors, called by generated code. */
public final class RowFunctions {
    private RowFunctions() {}

    /** Whether `position` is set in `bits`, lowest bit of the first byte first; a position beyond the end is not. */
    public static boolean isDeleted(byte[] bits, long position) {
        long place = position >> 3;
        return place < bits.length && (bits[(int) place] >> (int) (position & 7) & 1) != 0;
    }
}
