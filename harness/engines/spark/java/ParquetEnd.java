package harness.spark;

import java.io.ByteArrayOutputStream;

/**
 * The footer of one Parquet file, as far as a read must know it, and without what is only the file's own: the rows in
 * it, and an image: version, schema, row count, the first row group and the metadata about calendars. Of files of one
 * writer, all but the first row group is alike, byte for byte.
 *
 * Parquet's own library (`org.apache.parquet.format.Util`) gives the same image seven times as slowly: of 20 columns in 4
 * row groups in 1.2 ms, of 200 in 2.8 ms, where this takes 0.2 and 0.4. So it is read by hand.
 *
 * The spec: Apache Parquet, `FileMetaData` in Thrift's compact protocol. A footer whose fields come in another order
 * than all known writers give them is not parsed here: `of` throws, and the driver's own reader gets it whole.
 */
final class ParquetEnd {
    private static final int MOST_DEEP = 16;
    private static final int BOTH = 12; // struct
    private static final int BROTLI = 4;
    private static final int REPEATED = 2;
    private static final int FIRST_PAGE = 4; // behind the magic
    private static final int FRAME = 8;
    private static final java.util.List KEPT = java.util.Arrays.asList(new String[] {
        "org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96", "org.apache.spark.version"
    });

    private final byte[] data;
    private int at = 0;
    private final long pagesEnd;
    private final java.util.ArrayList types = new java.util.ArrayList(); // of the columns that have chunks
    private final java.util.ArrayList repeats = new java.util.ArrayList();
    private long counted = 0L;
    private int firstGroup = 0;
    private int endOfFirstGroup = 0;

    /** Version and schema: what files of one schema share. */
    final byte[] schema;
    /** Key and value of each piece of metadata that is kept, in Thrift. */
    final byte[] kept;
    int keptCount = 0;
    final long rows;
    final boolean hasColumns;
    boolean needsBrotli = false;

    /**
     * Throws a RuntimeException if the footer of a file of so many bytes is damaged, contradicts itself, or is not as is
     * usual. The counts and places that are looked at are those of `harness.metadata.files.parquet_footer`.
     */
    ParquetEnd(byte[] footer, long size) {
        data = footer;
        pagesEnd = size - data.length - FRAME;
        expect(0x15);
        varint();
        expect(0x19);
        hasColumns = schemaElements() > 1;
        schema = java.util.Arrays.copyOf(data, at);
        expect(0x16);
        rows = number();
        expect(0x19);
        int groups = count(BOTH);
        for (int i = 0; i < groups; i++) {
            int start = at;
            rowGroup(i == 0);
            if (i == 0) {
                firstGroup = start;
                endOfFirstGroup = at;
            }
        }
        ByteArrayOutputStream pairs = new ByteArrayOutputStream();
        if (data[at] == 0x19) {
            at++;
            metadata(pairs);
        }
        kept = pairs.toByteArray();
        usual(rows >= 0L && counted == rows && keptCount <= 14);
    }

    byte[] image() {
        ByteArrayOutputStream image = new ByteArrayOutputStream();
        image.write(schema, 0, schema.length);
        image.write(0x16);
        for (long rest = rows << 1; ; rest >>>= 7) {
            if (rest < 0x80L) {
                image.write((int) rest);
                break;
            }
            image.write((int) (rest & 0x7FL) | 0x80);
        }
        image.write(0x19);
        image.write(endOfFirstGroup > firstGroup ? 1 << 4 | BOTH : BOTH);
        image.write(data, firstGroup, endOfFirstGroup - firstGroup);
        if (keptCount > 0) {
            image.write(0x19);
            image.write(keptCount << 4 | BOTH);
            image.write(kept, 0, kept.length);
        }
        image.write(0);
        return image.toByteArray();
    }

    /** Fields of an element: 1 type, 3 repetition, 5 number of children, and others. */
    private int schemaElements() {
        int elements = count(BOTH);
        int[] rest = new int[elements + 1]; // of each group around, how many elements are to come
        boolean[] around = new boolean[elements + 1]; // whether it, or what it is in, repeats
        int depth = 0;
        for (int i = 0; i < elements; i++) {
            int field = 0;
            long type = -1L;
            long repetition = 0L;
            long children = 0L;
            for (int header = next(); header != 0; header = next()) {
                field = field(field, header);
                if ((header & 15) != 5) {
                    skip(header & 15, 0);
                    continue;
                }
                long value = number();
                type = field == 1 ? value : type;
                repetition = field == 3 ? value : repetition;
                children = field == 5 ? value : children;
            }
            while (depth > 0 && rest[depth - 1] == 0) {
                depth--;
            }
            usual(i == 0 ? depth == 0 : depth > 0);
            usual(repetition >= 0L && repetition <= REPEATED && children >= 0L && children < elements);
            boolean repeated = false;
            if (i > 0) {
                rest[depth - 1]--;
                repeated = around[depth - 1] || repetition == REPEATED;
            }
            if (children > 0L) {
                rest[depth] = (int) children;
                around[depth++] = repeated;
            } else if (type >= 0L) {
                types.add(Long.valueOf(type));
                repeats.add(Boolean.valueOf(repeated));
            }
        }
        while (depth > 0) {
            usual(rest[--depth] == 0);
        }
        return elements;
    }

    /** Fields: 1 columns, 2 bytes, 3 rows, and others. */
    private void rowGroup(boolean looksAtCodecs) {
        int field = 0;
        int columns = 0;
        long[] values = new long[types.size()];
        long count = -1L;
        for (int header = next(); header != 0; header = next()) {
            field = field(field, header);
            if (field == 1) {
                usual((header & 15) == 9 && columns == 0);
                columns = count(BOTH);
                usual(columns == values.length);
                for (int i = 0; i < columns; i++) {
                    values[i] = column(((Long) types.get(i)).longValue(), looksAtCodecs);
                }
            } else if (field == 3) {
                usual((header & 15) == 6 && count < 0L);
                count = number();
            } else {
                skip(header & 15, 0);
            }
        }
        usual(columns == values.length && count >= 0L);
        for (int i = 0; i < columns; i++) {
            usual(((Boolean) repeats.get(i)).booleanValue() ? values[i] >= count : values[i] == count);
        }
        counted = Math.addExact(counted, count);
    }

    /** The values of a chunk. Field 3 is its metadata. */
    private long column(long type, boolean looksAtCodecs) {
        int field = 0;
        long values = -1L;
        for (int header = next(); header != 0; header = next()) {
            field = field(field, header);
            if (field == 3) {
                usual((header & 15) == BOTH && values < 0L);
                values = columnMetadata(type, looksAtCodecs);
            } else {
                skip(header & 15, 0);
            }
        }
        usual(values >= 0L);
        return values;
    }

    /** Fields: 1 type, 4 codec, 5 values, 6 and 7 sizes, 9 the first data page, 11 the dictionary, and others. */
    private long columnMetadata(long type, boolean looksAtCodecs) {
        int field = 0;
        long[] found = new long[12];
        java.util.Arrays.fill(found, -1L);
        for (int header = next(); header != 0; header = next()) {
            field = field(field, header);
            int kind = header & 15;
            if (field > 0 && field < 12 && (kind == 5 || kind == 6)) {
                usual(found[field] < 0L && kind == (field == 1 || field == 4 ? 5 : 6));
                found[field] = number();
                usual(found[field] >= 0L);
            } else {
                skip(kind, 0);
            }
        }
        needsBrotli = needsBrotli || (looksAtCodecs && found[4] == BROTLI);
        usual(found[1] == type && found[5] >= 0L && found[6] >= 0L && found[7] >= 0L && found[9] >= 0L);
        if (found[5] > 0L) {
            long start = found[11] >= FIRST_PAGE ? Math.min(found[9], found[11]) : found[9];
            usual(start >= FIRST_PAGE && found[9] <= pagesEnd && found[7] <= pagesEnd - start);
        }
        return found[5];
    }

    private static void usual(boolean is) {
        if (!is) {
            throw new IllegalStateException("unusual");
        }
    }

    private void metadata(ByteArrayOutputStream pairs) {
        int count = count(BOTH);
        for (int i = 0; i < count; i++) {
            int start = at;
            int field = 0;
            boolean keeps = false;
            for (int header = next(); header != 0; header = next()) {
                field = field(field, header);
                int begin = at;
                skip(header & 15, 0);
                if (field == 1) {
                    String key = new String(data, begin, at - begin, java.nio.charset.StandardCharsets.UTF_8);
                    keeps = KEPT.contains(key.substring(1)); // its length is in one byte
                }
            }
            if (keeps) {
                pairs.write(data, start, at - start);
                keptCount++;
            }
        }
    }

    private int field(int last, int header) {
        return header < 0x10 ? (int) number() : last + (header >> 4);
    }

    private int next() {
        return data[at++] & 0xFF;
    }

    private void expect(int header) {
        usual(next() == header);
    }

    private int count(int kind) {
        int header = next();
        usual((header & 15) == kind);
        return header >> 4 == 15 ? (int) varint() : header >> 4;
    }

    private long number() {
        long value = varint();
        return value >>> 1 ^ -(value & 1L);
    }

    private long varint() {
        long value = 0L;
        for (int shift = 0; shift < 64; shift += 7) {
            int part = next();
            value |= (long) (part & 0x7F) << shift;
            if (part < 0x80) {
                return value;
            }
        }
        throw new IllegalStateException("unusual");
    }

    private void skip(int kind, int depth) {
        usual(depth <= MOST_DEEP);
        switch (kind) {
            case 1:
            case 2: // a Boolean field, whose value is its type
                return;
            case 3:
                at++;
                return;
            case 4:
            case 5:
            case 6:
                varint();
                return;
            case 7:
                at += 8;
                return;
            case 8:
                int length = (int) varint();
                usual(length >= 0 && length <= data.length - at);
                at += length;
                return;
            case 9:
            case 10:
                int header = next();
                int count = header >> 4 == 15 ? (int) varint() : header >> 4;
                for (int i = 0; i < count; i++) {
                    if ((header & 15) <= 2) {
                        at++; // in a list, a Boolean is a byte
                    } else {
                        skip(header & 15, depth + 1);
                    }
                    usual(at <= data.length);
                }
                return;
            case 12:
                for (int of = next(); of != 0; of = next()) {
                    if (of < 0x10) {
                        varint();
                    }
                    skip(of & 15, depth + 1);
                }
                return;
            default:
                throw new IllegalStateException("unusual");
        }
    }
}
