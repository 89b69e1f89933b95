package harness.spark;

import java.io.ByteArrayOutputStream;

/**
 * The footer of one Parquet file, as far as a read must know it, and without what is only the file's own: the rows in
 * it, and an image: version, schema, row count, the first row group and the metadata about calendars. Of files of one
 * writer, all but the first row group is alike, byte for byte.
 *
 * The spec: Apache Parquet, `FileMetaData` in Thrift's compact protocol. A footer whose fields come in another order
 * than all known writers give them is not parsed here: `of` throws, and the driver's own reader gets it whole.
 */
final class ParquetEnd {
    private static final int MOST_DEEP = 16;
    private static final int BOTH = 12; // struct
    private static final int BROTLI = 4;
    private static final java.util.List KEPT = java.util.Arrays.asList(new String[] {
        "org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96", "org.apache.spark.version"
    });

    private final byte[] data;
    private int at = 0;
    private boolean brotli = false;
    private long counted = 0L;
    private int firstGroup = 0;
    private int endOfFirstGroup = 0;

    /** Version and schema: what files of one schema share. */
    byte[] schema;
    /** Key and value of each piece of metadata that is kept, in Thrift. */
    byte[] kept;
    int keptCount = 0;
    long rows;
    boolean hasColumns;

    private ParquetEnd(byte[] data) {
        this.data = data;
    }

    /** Throws a RuntimeException if the footer is damaged, or not as is usual. */
    static ParquetEnd of(byte[] footer) {
        ParquetEnd end = new ParquetEnd(footer);
        end.parse();
        return end;
    }

    boolean needsBrotli() {
        return brotli;
    }

    /** Whether the row groups have as many rows as the footer counts. */
    boolean addsUp() {
        return counted == rows;
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

    private void parse() {
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
        if (rows < 0L || keptCount > 14) {
            throw new IllegalStateException("unusual");
        }
    }

    private int schemaElements() {
        int elements = count(BOTH);
        for (int i = 0; i < elements; i++) {
            skipStruct(0);
        }
        return elements;
    }

    /** Fields: 1 columns, 2 bytes, 3 rows, and others. */
    private void rowGroup(boolean looksAtCodecs) {
        int field = 0;
        for (int header = next(); header != 0; header = next()) {
            field = field(field, header);
            if (field == 1 && looksAtCodecs) {
                int columns = count(BOTH);
                for (int i = 0; i < columns; i++) {
                    column();
                }
            } else if (field == 3 && (header & 15) == 6) {
                counted += number();
            } else {
                skip(header & 15, 0);
            }
        }
    }

    /** Field 3 is the column's metadata, whose field 4 is the codec. */
    private void column() {
        int field = 0;
        for (int header = next(); header != 0; header = next()) {
            field = field(field, header);
            if (field != 3 || (header & 15) != BOTH) {
                skip(header & 15, 0);
                continue;
            }
            int inner = 0;
            for (int part = next(); part != 0; part = next()) {
                inner = field(inner, part);
                if (inner == 4 && (part & 15) == 5) {
                    brotli = number() == BROTLI || brotli;
                } else {
                    skip(part & 15, 0);
                }
            }
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
        if (next() != header) {
            throw new IllegalStateException("unusual");
        }
    }

    private int count(int kind) {
        int header = next();
        if ((header & 15) != kind) {
            throw new IllegalStateException("unusual");
        }
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

    private void skipStruct(int depth) {
        for (int header = next(); header != 0; header = next()) {
            if (header < 0x10) {
                varint();
            }
            skip(header & 15, depth);
        }
    }

    private void skip(int kind, int depth) {
        if (depth > MOST_DEEP) {
            throw new IllegalStateException("unusual");
        }
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
                if (length < 0 || length > data.length - at) {
                    throw new IllegalStateException("unusual");
                }
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
                    if (at > data.length) {
                        throw new IllegalStateException("unusual");
                    }
                }
                return;
            case 12:
                skipStruct(depth + 1);
                return;
            default:
                throw new IllegalStateException("unusual");
        }
    }
}
