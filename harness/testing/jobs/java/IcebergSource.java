package harness.jobs;

/** `format("iceberg")`. */
public final class IcebergSource extends PathSource {
    public String shortName() {
        return "iceberg";
    }
}
