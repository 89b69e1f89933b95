"""Where Delta Lake and harness differ on a scenario, and why harness stays as it is.

The evidence is in the scenario's file, whose clauses say what the protocol demands, and in `nox -s reference`: a read
that agrees is reported as well.
"""

_UNREAD = "leaves a vector unread that is said to delete no row"

_LENIENT = {
    "delta/change-feed/empty-vector#2": _UNREAD,
    "delta/change-feed/vector-of-cardinality-zero-refused": _UNREAD,
    "delta/change-feed/vector-of-wrong-counts#1": "holds no vector against the row count of its file",
    "delta/checkpoints/actions-lost-refused": "passes over rows of a checkpoint without an action",
    "delta/checkpoints/files-lost-refused": "does not hold a checkpoint against the counts of the hint",
    "delta/checkpoints/contradiction-refused": "reads a checkpoint that both adds and removes one file",
    "delta/checkpoints/own-commit-missing-refused": "asks for no commit at the checkpoint's own version",
    "delta/deletion-vectors/as-many-as-recorded": "holds no vector against the row count of its file",
    "delta/deletion-vectors/cardinality-of-zero-refused": _UNREAD,
    "delta/deletion-vectors/cardinality-zero-is-checked": _UNREAD,
    "delta/deletion-vectors/removed-descriptor-incomplete-refused": "looks at no vector of a remove",
    "delta/deletion-vectors/position-beyond-file-refused": "does not look whether the file has a deleted position",
    "delta/deletion-vectors/second-delete-without-old-vector-refused": (
        "reads a file that is live with two vectors twice, so that deleted rows come back"
    ),
    "delta/log/empty-commit-refused": "takes a commit of no bytes for one without actions",
    "delta/log/not-parquet-refused": "gives rows whatever the provider of the format",
    "delta/log/same-file-twice-in-commit-refused": "takes one of two contradictory actions of a commit",
    "delta/partitions/bad-value-refused": "casts a partition text that is no value of its type",
    "delta/protocol/redirect-ready-refused": "reads what a redirected table left behind, where its path is given",
    "delta/protocol/redirect-unknown-refused": "passes over a redirection in a state that it does not know",
    "delta/protocol/redirect-unparsable-refused": "passes over a redirection that it cannot parse",
    "delta/schema/legacy-calendar#2": "shifts dates of the old calendar, from before 1582",
    **{
        f"delta/schema/legacy-calendar-of-timestamps#{n}": "shifts days and moments of the old calendar"
        for n in range(5, 11)
    },
    "delta/schema/unknown-type-refused": "reads a column of type interval, where there is no row",
}
"""Tables that a reader may refuse, and Delta Lake reads: what it does. Harness refuses rather than guess."""

_WIDENED = "asks for ten digits before the point where a byte or a short becomes a decimal; fewer hold all of them"

_STRICT = {
    "delta/change-feed/bare-removal": (
        "refuses the feed of a remove without extendedFileMetadata; the protocol makes it optional, and the log has "
        "what is missing"
    ),
    "delta/deletion-vectors/offset-absent": (
        "reads the vector from byte 0, which is the file's version, and fails on its length"
    ),
    **dict.fromkeys(
        ("delta/checkpoints/parts-of-different-columns", "delta/checkpoints/sidecars-of-different-columns"),
        "fails on a file of a checkpoint without the column add, beside others that have it: FIELD_NOT_FOUND",
    ),
    "delta/skipping/old-calendar-bounds#1": "skips files by bounds of dates in the old calendar, and loses the row",
    "delta/skipping/old-calendar-bounds#2": "skips files by bounds of dates in the old calendar, and loses the row",
    "delta/checkpoints/without-add-column-falls-back": "fails on a checkpoint without the column add: FIELD_NOT_FOUND",
    "delta/log/compaction-damaged": "fails on a compacted file that is cut, though its commits are there",
    "delta/log/compaction-with-two-protocols": "fails on a compacted file that contradicts itself",
    "delta/log/format-without-options": "fails with a NullPointerException",
    "delta/log/free-commit-info": (
        "fails to parse isBlindAppend; the protocol lets commitInfo hold any JSON and gives it no meaning"
    ),
    "delta/partitions/name-case": "finds partition columns by their exact names only, where they are written otherwise",
    "delta/paths/hidden-file-names": "cannot open a name with a colon, which Hadoop takes for a scheme",
    "delta/paths/localhost-and-parents": "opens no path with a host: 'Wrong FS: file://localhost'",
    "delta/paths/remove-spelled-absolute": "fails on a recorded path that is not encoded: 'Illegal character in path'",
    "delta/protocol/feature-among-readers-only": "refuses a feature that only the readers' list has",
    "delta/protocol/unknown-writer-feature": "fails on a protocol of writer version 99, a writer's concern",
    **{f"delta/schema/no-columns-in-a-file#{n}": "fails on Parquet files without columns" for n in (2, 3, 5, 6)},
    "delta/schema/columns-named-like-an-engines": "confuses a column that is called `_metadata` with its own",
    "delta/type-widening/byte-and-short-to-decimal": _WIDENED,
    "delta/type-widening/old-struct-statistics": _WIDENED,
}
"""Tables that Delta Lake fails to read."""

_NAN = "skips files by bounds that leave NaN out, though it is above all numbers in Spark's filters"

_OTHER_ROWS = {
    "delta/checkpoints/files-lost-falls-back": "believes a checkpoint that lost files, against the counts of the hint",
    "delta/deletion-vectors/feature-missing": "applies no vector without the feature: a deleted row comes back",
    "delta/log/compaction-against-checksum": "believes a compacted file that lost actions, against the checksum",
    "delta/log/compaction-not-reconciled": "takes one of two contradictory actions of a compacted file",
    **{
        f"delta/skipping/decimals-through-a-double#{n}": "trusts bounds of decimals that went through a double"
        for n in range(1, 7)
    },
    "delta/skipping/num-records-of-zero#2": "skips a file whose numRecords is 0 where there is a filter",
    "delta/column-mapping/inert-annotations": (
        "follows the property and the annotations although the protocol action does not allow column mapping, and "
        "gives nulls"
    ),
    "delta/log/empty-compaction-ignored": (
        "takes a compacted file of no bytes for one without actions, so that the rows of its commits are missing"
    ),
    "delta/paths/added-again-in-another-spelling": (
        "takes two spellings of one path for two files, and reads it twice"
    ),
    "delta/schema/collated-strings": "compares by the collation of the column, which readers may take for plain text",
    "delta/schema/nullability-not-enforced": "takes for granted that there are no nulls, where the file has them",
    "delta/schema/odd-column-names#2": "pushes `a.b` to Parquet's Java library, which takes it for the path of a field",
    "delta/schema/void-and-char-columns#1": "fills texts of a CHAR column with blanks",
    "delta/skipping/maximum-cut-without-filler#1": "trusts a greatest text that was cut without a filler",
    "delta/skipping/maximum-cut-without-filler#2": "trusts a greatest text that was cut without a filler",
    "delta/skipping/nan-outside-bounds#1": _NAN,
    "delta/skipping/nan-outside-bounds#2": _NAN,
    "delta/skipping/nan-outside-bounds#3": _NAN,
    "delta/skipping/nan-outside-bounds#5": _NAN,
    "delta/skipping/nan-outside-bounds#6": "skips -0.0, though -0.0 = 0 in Spark's filters",
    "delta/skipping/old-zone-offsets": "trusts bounds with an offset whose seconds were cut, and loses the rows",
    "delta/statements/checkpoint-of-other-contents": "reads so many bytes of a file as the log says, and no row",
    "delta/statements/compaction-of-other-contents": "reads so many bytes of a file as the log says, and no row",
    "delta/statements/decimals-of-seventeen-digits": "trusts bounds of decimals that went through a double",
    "delta/statements/maximum-without-nan": _NAN,
}
"""Tables of which Delta Lake gives other rows."""

DIFFERENCES: dict[str, str] = {**_LENIENT, **_STRICT, **_OTHER_ROWS}
"""`scenario` for all of its reads, or `scenario#n` for its nth, to what Delta Lake does."""
