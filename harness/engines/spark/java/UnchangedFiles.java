package harness.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.util.SerializableConfiguration;

/**
 * A reader that fails if a file's size or modification time differs from the planned one, because then the known
 * bounds, row counts, and deletes may no longer apply. A time of 0 is unknown.
 */
final class UnchangedFiles extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
    private final scala.Function1 reader;
    private final SerializableConfiguration configuration;

    /** `configuration`: Hadoop's configuration, or null if all files are local. */
    UnchangedFiles(scala.Function1 reader, Configuration configuration) {
        this.reader = reader;
        this.configuration = configuration == null ? null : new SerializableConfiguration(configuration);
    }

    public Object apply(Object file) {
        PartitionedFile planned = (PartitionedFile) file;
        Path path = planned.toPath();
        long size;
        long modified;
        if ("file".equals(path.toUri().getScheme())) {
            java.io.File found = new java.io.File(path.toUri().getPath());
            size = found.length();
            modified = found.lastModified();
        } else {
            try {
                FileStatus status = path.getFileSystem(configuration.value()).getFileStatus(path);
                size = status.getLen();
                modified = status.getModificationTime();
                SharedFileSystem.answer(path, status);
            } catch (java.io.IOException gone) {
                return reader.apply(file); // its error says so
            }
        }
        boolean isGone = size == 0L && modified == 0L;
        boolean isOther = planned.modificationTime() != 0L && modified != planned.modificationTime();
        if (!isGone && (size != planned.fileSize() || isOther)) {
            throw new IllegalStateException("[harness.FILE_CHANGED] " + planned.urlEncodedPath());
        }
        return reader.apply(file);
    }
}
