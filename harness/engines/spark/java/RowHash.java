package harness.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The row hash for comparisons. It equals the hash that DuckDB computes. The docstring of `harness.diff.hashing`
 * defines and explains it.
 *
 * Plain columns have their own methods. Any other column is described by a text: the JSON of its type, a line feed, and
 * then one letter per part:
 *
 *     N                    nothing: always null
 *     W                    a 64-bit number: boolean, byte, short, int or long
 *     T divisor,per;       a count of time: divided by `divisor` first, then split by `per` unless that is 0
 *     F                    a float
 *     S, B, U              text, bytes, a UUID as text
 *     D scale,digits;      a decimal or whole number, unscaled at `scale`, in 64 bits (0), 128 bits (1) or split (2)
 *     [ element            a list
 *     { ordinal; field }   a struct, with the required fields in the required order
 *     < key value          a map
 *
 * Janino compiles this class and all others here, so they use neither generics nor lambdas.
 */
public final class RowHash {
    private static final long MULTIPLIER = 0xD6E8FEB86659FD93L;
    private static final long NULL = 0xBF58476D1CE4E5B9L;
    private static final long FIRST_SEED = 0x9E3779B97F4A7C15L;
    private static final long SECOND_SEED = 0xC2B2AE3D27D4EB4FL;
    private static final long BYTES_START = 0xE17A1465L;
    private static final long BYTES_LENGTH = 0xC6A4A7935BD1E995L;
    private static final long PREFIX = 'x';
    private static final ConcurrentHashMap PARSED = new ConcurrentHashMap();

    private RowHash() {}

    /** Adds a hash to a chain. */
    public static long link(long chain, long hash) {
        return mix(chain ^ hash);
    }

    public static long whole(boolean value) {
        return mix(value ? 1L : 0L);
    }

    public static long whole(byte value) {
        return mix((long) value);
    }

    public static long whole(short value) {
        return mix((long) value);
    }

    public static long whole(int value) {
        return mix((long) value);
    }

    public static long whole(long value) {
        return mix(value);
    }

    public static long real(float value) {
        return mix(Double.doubleToLongBits((double) value));
    }

    public static long real(double value) {
        return mix(Double.doubleToLongBits(value));
    }

    /** Returns the unscaled value at a scale, if it has at most 18 digits. */
    public static long narrow(Decimal value, int scale) {
        if (value.scale() == scale && value.precision() <= 18) {
            return mix(value.toUnscaledLong());
        }
        return mix(unscaled(value, scale).longValue());
    }

    public static long firstOfBytes(UTF8String value) {
        return bytes(value.getBaseObject(), value.getBaseOffset(), value.numBytes());
    }

    public static long firstOfBytes(byte[] value) {
        return bytes(value, Platform.BYTE_ARRAY_OFFSET, value.length);
    }

    public static long secondOfBytes(UTF8String value) {
        return prefixed(value.getBaseObject(), value.getBaseOffset(), value.numBytes());
    }

    public static long secondOfBytes(byte[] value) {
        return prefixed(value, Platform.BYTE_ARRAY_OFFSET, value.length);
    }

    /** Spark passes primitive numbers and Booleans, which Java boxes. */
    public static long of(Object value, UTF8String description, int lane) {
        return parsed(description).hash(value, lane);
    }

    private static long mix(long word) {
        word ^= word >>> 32;
        word *= MULTIPLIER;
        word ^= word >>> 32;
        word *= MULTIPLIER;
        return word ^ word >>> 32;
    }

    private static long bytes(Object base, long offset, int length) {
        long word = BYTES_START ^ length * BYTES_LENGTH;
        int end = length & ~7;
        for (int i = 0; i < end; i += 8) {
            word = (word ^ little(Platform.getLong(base, offset + i))) * MULTIPLIER;
        }
        if (end < length) {
            long last = 0L;
            for (int i = end; i < length; i++) {
                last |= (Platform.getByte(base, offset + i) & 0xFFL) << ((i & 7) << 3);
            }
            word = (word ^ last) * MULTIPLIER;
        }
        return mix(word);
    }

    private static long prefixed(Object base, long offset, int length) {
        long word = BYTES_START ^ (length + 1L) * BYTES_LENGTH;
        long held = PREFIX;
        int end = length & ~7;
        for (int i = 0; i < end; i += 8) {
            long next = little(Platform.getLong(base, offset + i));
            word = (word ^ (held | next << 8)) * MULTIPLIER;
            held = next >>> 56;
        }
        for (int i = end; i < length; i++) {
            held |= (Platform.getByte(base, offset + i) & 0xFFL) << ((i & 7) + 1 << 3);
        }
        return mix((word ^ held) * MULTIPLIER);
    }

    private static long little(long word) {
        return java.nio.ByteOrder.nativeOrder() == java.nio.ByteOrder.LITTLE_ENDIAN ? word : Long.reverseBytes(word);
    }

    private static long start(int lane) {
        return lane == 0 ? FIRST_SEED : SECOND_SEED;
    }

    private static BigInteger unscaled(Decimal value, int scale) {
        return value.toJavaBigDecimal().setScale(scale, RoundingMode.UNNECESSARY).unscaledValue();
    }

    private static long wide(BigInteger value, int lane) {
        BigInteger hashed = lane == 0 ? value : value.negate();
        return mix(hashed.longValue()) ^ mix(hashed.shiftRight(64).longValue());
    }

    private static Node parsed(UTF8String description) {
        Node node = (Node) PARSED.get(description);
        if (node == null) {
            String text = description.toString();
            int end = text.indexOf('\n');
            node = new Parser(text, end + 1).node(DataType.fromJson(text.substring(0, end)));
            PARSED.put(description.clone(), node);
        }
        return node;
    }

    private static long integer(Object value) {
        return value instanceof Boolean ? (((Boolean) value).booleanValue() ? 1L : 0L) : ((Number) value).longValue();
    }

    /** A part of a description, and the Spark type of its values. */
    private static final class Node {
        private final DataType type;
        private final char kind;
        private final long first;
        private final long second;
        private final int[] ordinals;
        private final Node[] parts;

        Node(DataType type, char kind, long first, long second, int[] ordinals, Node[] parts) {
            this.type = type;
            this.kind = kind;
            this.first = first;
            this.second = second;
            this.ordinals = ordinals;
            this.parts = parts;
        }

        long hash(Object value, int lane) {
            if (value == null) {
                return NULL;
            }
            switch (kind) {
                case 'N':
                    return NULL;
                case 'W':
                    return mix(integer(value));
                case 'T':
                    return ticks(integer(value), lane);
                case 'F':
                    return real(((Number) value).doubleValue());
                case 'S':
                    return lane == 0 ? firstOfBytes((UTF8String) value) : secondOfBytes((UTF8String) value);
                case 'B':
                    return lane == 0 ? firstOfBytes((byte[]) value) : secondOfBytes((byte[]) value);
                case 'U':
                    return uuid(value.toString(), lane);
                case 'D':
                    return decimal(value, lane);
                case '[':
                    return list((ArrayData) value, lane);
                case '{':
                    return struct((InternalRow) value, lane);
                case '<':
                    return map((MapData) value, lane);
                default:
                    throw new IllegalStateException("unknown kind " + kind);
            }
        }

        private long ticks(long count, int lane) {
            long value = Math.floorDiv(count, first);
            if (second == 0L) {
                return mix(value);
            }
            long chain = link(start(lane), mix(Math.floorDiv(value, second)));
            return link(chain, mix(Math.floorMod(value, second)));
        }

        private long uuid(String text, int lane) {
            java.util.UUID value = java.util.UUID.fromString(text);
            byte[] bytes = java.nio.ByteBuffer.allocate(16)
                .putLong(value.getMostSignificantBits())
                .putLong(value.getLeastSignificantBits())
                .array();
            return lane == 0 ? firstOfBytes(bytes) : secondOfBytes(bytes);
        }

        private long decimal(Object value, int lane) {
            int scale = (int) first;
            BigDecimal number = value instanceof Decimal
                ? ((Decimal) value).toJavaBigDecimal()
                : BigDecimal.valueOf(integer(value));
            if (second < 2L) {
                BigInteger unscaled = number.setScale(scale, RoundingMode.UNNECESSARY).unscaledValue();
                return second == 0L ? mix(unscaled.longValue()) : wide(unscaled, lane);
            }
            BigInteger whole = number.toBigInteger();
            BigInteger rest =
                number.subtract(new BigDecimal(whole)).setScale(scale, RoundingMode.UNNECESSARY).unscaledValue();
            return link(link(start(lane), wide(whole, lane)), wide(rest, lane));
        }

        private long list(ArrayData value, int lane) {
            long chain = start(lane);
            int count = value.numElements();
            for (int i = 0; i < count; i++) {
                chain = link(chain, parts[0].part(value, i, lane));
            }
            return link(chain, mix((long) count));
        }

        private long struct(InternalRow value, int lane) {
            long chain = start(lane);
            for (int i = 0; i < parts.length; i++) {
                chain = link(chain, parts[i].part(value, ordinals[i], lane));
            }
            return chain;
        }

        private long map(MapData value, int lane) {
            ArrayData keys = value.keyArray();
            ArrayData values = value.valueArray();
            int count = value.numElements();
            long sum = 0L;
            for (int i = 0; i < count; i++) {
                sum += link(link(start(lane), parts[0].part(keys, i, lane)), parts[1].part(values, i, lane));
            }
            return link(link(start(lane), mix(sum)), mix((long) count));
        }

        private long part(SpecializedGetters values, int place, int lane) {
            return values.isNullAt(place) ? NULL : hash(values.get(place, type), lane);
        }
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text, int at) {
            this.text = text;
            this.at = at;
        }

        Node node(DataType type) {
            char kind = text.charAt(at++);
            switch (kind) {
                case 'T':
                case 'D':
                    long first = number(',');
                    return new Node(type, kind, first, number(';'), null, null);
                case '[':
                    return new Node(type, kind, 0L, 0L, null, new Node[] {node(((ArrayType) type).elementType())});
                case '<':
                    Node key = node(((MapType) type).keyType());
                    return new Node(type, kind, 0L, 0L, null, new Node[] {key, node(((MapType) type).valueType())});
                case '{':
                    return struct((StructType) type);
                default:
                    return new Node(type, kind, 0L, 0L, null, null);
            }
        }

        private Node struct(StructType type) {
            int[] ordinals = new int[type.length()];
            Node[] parts = new Node[type.length()];
            int count = 0;
            while (text.charAt(at) != '}') {
                ordinals[count] = (int) number(';');
                parts[count] = node(type.fields()[ordinals[count]].dataType());
                count++;
            }
            at++;
            return new Node(type, '{', 0L, 0L, Arrays.copyOf(ordinals, count), (Node[]) Arrays.copyOf(parts, count));
        }

        private long number(char end) {
            int stop = text.indexOf(end, at);
            long value = Long.parseLong(text.substring(at, stop));
            at = stop + 1;
            return value;
        }
    }
}
