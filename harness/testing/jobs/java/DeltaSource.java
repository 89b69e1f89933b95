package harness.testing.jobs;

/** `format("delta")`. */
public final class DeltaSource extends PathSource {
    public String shortName() {
        return "delta";
    }
}
