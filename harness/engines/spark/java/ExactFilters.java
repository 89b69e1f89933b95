package harness.spark;

import java.util.ArrayList;

/**
 * Removes filters that would mean another day in the reader of a file. Spark passes days and instants to readers as
 * `java.sql.Date` and `java.sql.Timestamp`, in whose calendar 1582-10-15 follows 1582-10-04. The ten days in between
 * would become 1582-10-15, and row groups with these days would be skipped.
 */
final class ExactFilters {
    private static final String FIRST_DAY = "1582-10-15"; // of the Gregorian calendar, as both classes print it

    private ExactFilters() {}

    /** Returns the exact filters among `filters`, which are combined by AND. */
    static scala.collection.immutable.Seq of(scala.collection.immutable.Seq filters) {
        ArrayList exact = new ArrayList();
        scala.collection.Iterator each = filters.iterator();
        while (each.hasNext()) {
            Object filter = each.next();
            if (isExact(filter)) {
                exact.add(filter);
            }
        }
        return PlannedFileIndex.sequence(exact);
    }

    /** Returns whether all values in a filter are exactly the values of the query. */
    private static boolean isExact(Object part) {
        if (part instanceof Object[]) {
            for (Object value : (Object[]) part) {
                if (!isExact(value)) {
                    return false;
                }
            }
            return true;
        }
        if (part instanceof scala.Product) {
            scala.collection.Iterator inner = ((scala.Product) part).productIterator();
            while (inner.hasNext()) {
                if (!isExact(inner.next())) {
                    return false;
                }
            }
            return true;
        }
        return !(part instanceof java.util.Date && part.toString().startsWith(FIRST_DAY));
    }
}
