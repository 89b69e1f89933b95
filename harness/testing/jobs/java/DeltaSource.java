package harness.jobs;

/** `format("delta")`. */
public final class DeltaSource extends PathSource {
    public String shortName() {
        return "delta";
    }
}
