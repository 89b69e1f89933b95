package harness.spark;

import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The files of a read in the form that Python sends: an Arrow IPC stream with one row per file. Its columns are the
 * location, the size in bytes, the modification time (ms since 1970, 0 if unknown), and the constants of the file.
 */
final class PlannedFiles {
    private static final int PATH = 0;
    private static final int SIZE = 1;
    private static final int MODIFIED = 2;
    private static final int CONSTANTS = 3;

    final StructType constants;
    /** The constants of each file, as InternalRows. */
    final List rows = new ArrayList();
    private final ArrayList statuses = new ArrayList();

    private PlannedFiles(StructType described) {
        StructField[] fields = described.fields();
        constants = new StructType((StructField[]) Arrays.copyOfRange(fields, CONSTANTS, fields.length));
    }

    static PlannedFiles read(byte[] stream) throws Exception {
        BufferAllocator memory = ArrowUtils.rootAllocator().newChildAllocator("harness planned files", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
        try {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            PlannedFiles files = new PlannedFiles(ArrowUtils.fromArrowSchema(root.getSchema()));
            while (reader.loadNextBatch()) {
                ColumnVector[] columns = new ColumnVector[CONSTANTS + files.constants.length()];
                for (int i = 0; i < columns.length; i++) {
                    columns[i] = new ArrowColumnVector(root.getVector(i));
                }
                ColumnarBatch batch = new ColumnarBatch(columns, root.getRowCount());
                for (int row = 0; row < root.getRowCount(); row++) {
                    files.add(batch.getRow(row));
                }
            }
            return files;
        } finally {
            reader.close();
            memory.close();
        }
    }

    private void add(InternalRow file) {
        long size = file.getLong(SIZE);
        Path path = path(file.getUTF8String(PATH).toString());
        statuses.add(new FileStatus(size, false, 1, Math.max(size, 1L), file.getLong(MODIFIED), path));
        Object[] kept = new Object[constants.length()];
        for (int i = 0; i < kept.length; i++) {
            if (!file.isNullAt(CONSTANTS + i)) {
                Object value = file.get(CONSTANTS + i, constants.fields()[i].dataType());
                // The string refers to Arrow's memory, which will be freed.
                kept[i] = value instanceof UTF8String ? (Object) ((UTF8String) value).copy() : value;
            }
        }
        rows.add(new GenericInternalRow(kept));
    }

    FileStatus[] statuses() {
        return (FileStatus[]) statuses.toArray(new FileStatus[statuses.size()]);
    }

    /** Parses scheme://authority/path. The path is used literally, without decoding or patterns. */
    static Path path(String location) {
        int end = location.indexOf("://");
        String rest = location.substring(end + 3);
        int slash = rest.indexOf('/');
        return new Path(location.substring(0, end), rest.substring(0, slash), rest.substring(slash));
    }

    boolean areLocal() {
        boolean local = true;
        for (Object status : statuses) {
            local = local && "file".equals(((FileStatus) status).getPath().toUri().getScheme());
        }
        return local;
    }
}
