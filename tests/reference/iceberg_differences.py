"""Reads of scenarios in which Apache Iceberg's reader for Spark does otherwise than harness, and why harness does not.

Of version 1.12.0. The evidence is in the scenario's file, whose clauses say what the specification demands, and in
`nox -s reference`: every other read agrees, and a read on this list that agrees is reported as well.
"""

_UNCHECKED = {
    "deletes/avro-deletes-that-lost-rows": "holds no delete file against the record count of its entry",
    "deletes/equality-delete-without-ids": "takes a delete file without keys as one that deletes every row",
    "deletes/nan-key": "takes keys of type double, which the format forbids; NaN equals NaN",
    "deletes/vector-beyond-the-file": "ignores a deleted position that the data file does not have",
    "deletes/vector-and-wrong-record-count": "holds no vector against the record count of its data file",
    "deletes/vector-in-a-bare-file": "reads a vector by offset and length, whatever the Puffin file around it",
    "manifests/record-count-of-zero-with-positions": "holds no position against the record count of its file",
    "deletes/vector-in-a-v2-table": "reads a deletion vector in a table of version 2, which has none",
    "deletes/vector-without-referenced-file": "leaves out a deletion vector that says no data file",
    "files/nested-by-position#2": "takes columns by position, and nulls for what lies below them",
    "manifests/deletes-among-data": "looks at no content of the entries of a manifest of data",
    "manifests/file-listed-twice": "reads a data file as often as it is listed",
    "manifests/header-of-deletes-in-version-1": "looks at no content in the header of a manifest",
    "manifests/key-metadata#2": "reads a manifest that says it is encrypted, if it is not",
    "manifests/truncated": "takes a manifest whose last block is cut off for one that ends there, and loses its rows",
    "metadata/view": "looks at no field of metadata that is a view's alone",
    **{
        f"partitions/conflicting-values#{n}": "takes one of two values that a file's partition gives for one column"
        for n in (1, 2, 3)
    },
    **dict.fromkeys(
        ("schema/no-other-promotion#4", "schema/no-other-promotion#5", "schema/no-other-promotion#11"),
        "gives rows of a decimal of another scale or fewer digits, and of a longer fixed, than the file has",
    ),
    "types/decimal-of-another-scale": "takes 1.500 in the file for 15.00 in the table: the digits, and another scale",
    "types/fixed-of-another-length": "gives three bytes where the type has two",
}
"""Damage and forgeries that harness refuses and Iceberg does not look for."""

_COLUMNLESS = "fails on Parquet files without columns: IndexOutOfBoundsException"

_STRICT = {
    "deletes/key-dropped#1": "fails where a dropped key's name was taken again: 'multiple fields for name id'",
    "deletes/no-columns-in-parquet": _COLUMNLESS,
    "deletes/unknown-key#2": _COLUMNLESS,
    "files/codec-brotli": "has no Brotli: ClassNotFoundException of Hadoop's BrotliCodec",
    **{f"files/no-columns#{n}": _COLUMNLESS for n in range(1, 6)},
    "files/wrong-file-size": "trusts the manifest's file size, and cannot find the Parquet footer",
    "manifests/spec-in-the-header-alone": "fails where the metadata lacks a manifest's spec: NullPointerException",
    "manifests/wrong-lengths": "trusts the manifest list's lengths: 'Not an Avro data file'",
    "metadata/log-of-lost-files": "fails on a metadata log that is out of order, which reading does not need",
    "metadata/null-for-absent": "fails on `properties: null`",
    "metadata/source-ids": "does not know transforms of several columns: 'Cannot parse missing int: source-id'",
    "metadata/summaries": "fails on a summary with a value that is no text, which reading does not need",
    "metadata/type-names#1": "fails on a type that it does not know, also when others are read",
    "metadata/type-names#2": "fails on a type that it does not know, also when others are read",
    "pruning/bounds-of-every-type": "has no type for times of day in Spark",
    "pruning/summary-of-wrong-length#1": "fails on a bound of the wrong length: BufferUnderflowException",
    "pruning/tuples-that-a-writer-computes": "has no timestamp of nanoseconds in Spark",
    "pruning/unknown-transform": "fails on a transform that it does not know, which readers shall ignore",
    "schema/columns-named-like-metadata#1": "refuses columns that are named like its metadata columns",
    "schema/columns-named-like-metadata#2": "refuses columns that are named like its metadata columns",
    "schema/date-to-timestamp": "cannot read days as timestamps yet",
    "schema/defaults-of-nested-types": "has no literals of lists, and so no such defaults: IllegalArgumentException",
    "schema/types-of-v3": "has no timestamp of nanoseconds in Spark",
    "schema/unknown-column-in-a-file": "has no type for columns of type unknown in Spark",
    "statements/bounds-cut-inside-a-character": "fails on bounds that were cut inside a character: no text",
    "statements/file-overwritten-in-place": "trusts the manifest's file size, and cannot find the Parquet footer",
    "statements/identifier-of-no-column": "fails on an identifier field that is no column, which reading does not need",
    "statements/manifest-of-another-length": "trusts the manifest list's lengths: 'Not an Avro data file'",
    "statements/missing-required-field": "fails without a default sort order, which reading does not need",
    "statements/partition-field-of-two-meanings": "fails on a partition field id of two columns in two specs",
    "statements/retention-of-nothing": "fails on a retention of nothing, which reading does not need",
    "statements/sizes-of-deletes": "trusts the manifest's file size, and cannot find the Parquet footer",
    "statements/snapshot-of-an-unknown-schema#1": "fails on a snapshot of an unknown schema by the current one too",
    "statements/statistics-that-are-none": "fails on statistics without a path, which reading does not need",
    "statements/tag-of-a-lost-snapshot#1": "fails on a tag of a lost snapshot where another one is read too",
    "statements/totals-in-every-file": "trusts the manifest's file size, and cannot find the Parquet footer",
    "statements/unknown-default-order": "fails on a default sort order that is not there, which reading does not need",
    "types/geographies": "fails on geographies in Parquet that are plain bytes: ClassCastException",
    "types/geometry-in-one-form": "fails on geometries in Parquet that are plain bytes: ClassCastException",
    "types/texts": "fails on bytes that are not marked as text: 'UUID require 16 bytes' and a ClassCastException",
    "types/times": "has no type for times of day in Spark",
    "types/variants#2": "gives nulls in variants that pyarrow does not take: 'nulls in input cannot be viewed'",
}
"""Tables that Iceberg fails to read."""

_MOVED = dict.fromkeys(
    (
        *("deletes/moved-table-v2", "deletes/moved-table-v3", "manifests/inline-in-version-1"),
        *("statements/partition-statistics-below-zero", "statements/statistics-of-other-blobs"),
    ),
    "opens recorded paths only: a table that was moved is not there",
)

_HINTS = {"metadata/hint-of-nothing": "is given the metadata file, and does not look for it"}

_CUT_SHORT = dict.fromkeys(
    [f"pruning/summary-cut-short#{number}" for number in range(1, 7)],
    "trusts upper bounds of summaries that were cut and not rounded up: rows of other manifests are missing",
)

_WRAPPED = "skips the least integers, whose truncation wraps around to the greatest"
_NAN = "takes NaN for no number when it skips by bounds, though it is above all numbers in Spark's filters"

_OTHER_ROWS = {
    "deletes/cut-path-bounds": "takes equal bounds of paths for the path, though they may be cut",
    "deletes/equality-delete-without-value-counts": (
        "takes value counts of 0 for keys that are always null, so that the delete hits no row"
    ),
    "deletes/extra-columns-in-equality-delete#2": (
        "skips delete files by bounds of columns that are no keys, which here are stale: a deleted row comes back; "
        "without these bounds it agrees"
    ),
    "deletes/nested-key-under-null-struct": (
        "compares a nested key with its structs, so that a null struct is not a struct of a null"
    ),
    "manifests/bounds-are-not-trusted-for-nan#1": _NAN,
    "manifests/counts-given-twice#2": "takes the last of two counts for one column: a row is missing",
    "manifests/file-counts-of-zero": "opens no manifest whose counts of files in the manifest list are 0",
    "manifests/inverted-bounds": "trusts bounds whose lower is above the upper",
    "manifests/record-count-of-zero#2": "skips a file whose record count is 0 where there is a filter",
    "manifests/record-count-of-zero#3": "skips a file whose record count is 0 where there is a filter",
    "manifests/wrong-partition-summary": "trusts the manifest list's partition summaries",
    "partitions/nan-and-null#2": _NAN,
    "partitions/nan-and-null#3": "skips the partition of -0.0, though -0.0 = 0 in Spark's filters",
    "pruning/bounds-from-before-widening#5": "takes a bound of days for one of timestamps: ClassCastException",
    "pruning/bounds-from-before-widening#6": "takes a bound of days for one of timestamps: a row is missing",
    "pruning/nan-bounds#2": _NAN,
    "pruning/nan-bounds#3": _NAN,
    **_CUT_SHORT,
    "pruning/summary-inverted#3": "trusts a summary whose lower bound is above the upper",
    "pruning/summary-without-nan#2": _NAN,
    "pruning/truncated-numbers#1": _WRAPPED,
    "pruning/truncated-numbers#2": _WRAPPED,
    "schema/nulls-in-a-required-column": "takes for granted that there are none, where the file has them",
    "statements/summary-of-no-value": "takes a partition summary without null and bounds for one of no values",
    **dict.fromkeys(
        ("time-travel/two-snapshots-of-one-time#1", "time-travel/two-snapshots-of-one-time#2"),
        "takes the first of two log entries of one time since 1.12.0 (apache/iceberg#17360), and not what remained",
    ),
    "types/integers": "has no unsigned integers of Parquet, and skips row groups by their statistics as signed ones",
    "types/timestamps#1": "takes nanoseconds of a file for microseconds",
}
"""Tables of which Iceberg gives other rows."""

DIFFERENCES = {
    f"iceberg/{name}": reason for name, reason in {**_UNCHECKED, **_STRICT, **_MOVED, **_HINTS, **_OTHER_ROWS}.items()
}
"""`scenario` for all of its reads, or `scenario#n` for its nth, to what Iceberg does."""
