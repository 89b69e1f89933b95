package harness.spark;

import java.util.ArrayList;

/**
 * Filters that Spark pushes to a reader of files, without those that mean another day there. Spark gives days and
 * instants to readers as `java.sql.Date` and `java.sql.Timestamp`, in whose calendar the 15th of October 1582 follows the
 * 4th: the ten days in between become the 15th, and row groups with them would be skipped.
 */
final class ExactFilters {
    private static final String FIRST_DAY = "1582-10-15"; // of the Gregorian calendar, as both classes print it

    private ExactFilters() {}

    /** Those of `filters`, which all must hold, that are exact. */
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

    /** Of a filter: whether all values in it are; of a value, whether it is the very one of the query. */
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
