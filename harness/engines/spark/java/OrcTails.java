package harness.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcProto;
import org.apache.spark.sql.classic.SparkSession;

/** A job that fetches the ends of ORC files, footer and postscript, as they are stored: each file is found whole, or faulty. */
public final class OrcTails extends FooterJob {
    private static final int HEAD = 4;
    private static final int GUESS = 1 << 14;

    private OrcTails(SparkSession user, java.util.Map options) throws java.io.IOException {
        super(user, options);
    }

    /** `files`: their locations, with a NUL between two. */
    public static byte[] fetch(SparkSession user, byte[] files, java.util.Map options) throws Exception {
        return new OrcTails(user, options).run(user, named(files));
    }

    public Object call(Object chunk) throws Exception {
        String[] files = (String[]) chunk;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream records = new DataOutputStream(bytes);
        ByteArrayOutputStream ends = new ByteArrayOutputStream();
        DataOutputStream texts = new DataOutputStream(ends);
        records.writeInt(files.length);
        for (int i = 0; i < files.length; i++) {
            FileStatus status = new FileStatus();
            byte[] text = null;
            String fault = null;
            try {
                Path path = PlannedFiles.path(files[i]);
                FileSystem fileSystem = path.getFileSystem(configuration());
                status = fileSystem.getFileStatus(path);
                if (status.isFile() && status.getLen() > 0L) {
                    text = ends(fileSystem, status);
                } else {
                    fault = status.isFile() ? "M" : "R";
                }
            } catch (Exception error) {
                fault = FooterJob.fault(error);
            }
            if (fault != null) {
                text = fault.getBytes(StandardCharsets.UTF_8);
            }
            records.writeByte(fault == null ? WHOLE : FAULTY);
            records.writeInt(i);
            records.writeLong(status.getLen());
            records.writeLong(status.getModificationTime());
            records.writeLong(0L);
            texts.writeBoolean(false);
            texts.writeInt(text.length);
            texts.write(text);
        }
        records.writeInt(files.length);
        records.write(ends.toByteArray());
        return bytes.toByteArray();
    }

    /** The first bytes of a file, and those from its footer on; of what is no ORC file, an end of some length. */
    private static byte[] ends(FileSystem fileSystem, FileStatus status) throws Exception {
        long size = status.getLen();
        FSDataInputStream in = fileSystem.open(status.getPath());
        try {
            byte[] tail = new byte[(int) Math.min(size, (long) GUESS)];
            in.readFully(size - tail.length, tail);
            long needed = Math.min(size, needed(tail));
            byte[] text = new byte[HEAD + (int) needed];
            in.readFully(0L, text, 0, (int) Math.min(size, (long) HEAD));
            if (needed <= tail.length) {
                System.arraycopy(tail, tail.length - (int) needed, text, HEAD, (int) needed);
            } else {
                in.readFully(size - needed, text, HEAD, (int) needed);
            }
            return text;
        } finally {
            in.close();
        }
    }

    private static long needed(byte[] tail) {
        int length = tail[tail.length - 1] & 0xff;
        int start = tail.length - 1 - length;
        if (start >= 0) {
            try {
                byte[] said = java.util.Arrays.copyOfRange(tail, start, tail.length - 1);
                long footer = OrcProto.PostScript.parseFrom(said).getFooterLength();
                return footer >= 0L && footer < MOST ? footer + length + 1L : tail.length;
            } catch (java.io.IOException damaged) {
                return tail.length;
            }
        }
        return tail.length;
    }
}
