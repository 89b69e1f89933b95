"""Where Delta Lake and harness differ on a scenario, and why harness stays as it is.

The evidence is in the scenario's file, whose clauses say what the protocol demands, and in `nox -s reference`: a read
that agrees is reported as well.
"""

from __future__ import annotations

_LENIENT = {
    "delta/checkpoints/contradiction-refused": "reads a checkpoint that both adds and removes one file",
    "delta/checkpoints/own-commit-missing-refused": "asks for no commit at the checkpoint's own version",
    "delta/deletion-vectors/position-beyond-file-refused": "does not look whether the file has a deleted position",
    "delta/deletion-vectors/second-delete-without-old-vector-refused": (
        "reads a file that is live with two vectors twice, so that deleted rows come back"
    ),
    "delta/log/empty-commit-refused": "takes a commit of no bytes for one without actions",
    "delta/log/not-parquet-refused": "gives rows whatever the provider of the format",
    "delta/log/same-file-twice-in-commit-refused": "takes one of two contradictory actions of a commit",
    "delta/partitions/bad-value-refused": "casts a partition text that is no value of its type",
    "delta/schema/legacy-calendar#2": "shifts dates of the old calendar, from before 1582",
    "delta/schema/unknown-type-refused": "reads a column of type interval, where there is no row",
}
"""Tables that a reader may refuse, and Delta Lake reads: what it does. Harness refuses rather than guess."""

_STRICT = {
    "delta/change-feed/bare-removal": (
        "refuses the feed of a remove without extendedFileMetadata; the protocol makes it optional, and the log has "
        "what is missing"
    ),
    "delta/deletion-vectors/offset-absent": (
        "reads the vector from byte 0, which is the file's version, and fails on its length"
    ),
    "delta/log/format-without-options": "fails with a NullPointerException",
    "delta/log/free-commit-info": (
        "fails to parse isBlindAppend; the protocol lets commitInfo hold any JSON and gives it no meaning"
    ),
    "delta/partitions/name-case": "finds partition columns by their exact names only, where they are written otherwise",
    "delta/paths/hidden-file-names": "cannot open a name with a colon, which Hadoop takes for a scheme",
    "delta/paths/localhost-and-parents": "opens no path with a host: 'Wrong FS: file://localhost'",
    "delta/paths/remove-spelled-absolute": "fails on a recorded path that is not encoded: 'Illegal character in path'",
    "delta/protocol/unknown-writer-feature": "fails on a protocol of writer version 99, a writer's concern",
    "delta/schema/columns-named-like-an-engines": "confuses a column that is called `_metadata` with its own",
}
"""Tables that Delta Lake fails to read."""

_NAN = "skips files by bounds that leave NaN out, though it is above all numbers in Spark's filters"

_OTHER_ROWS = {
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
}
"""Tables of which Delta Lake gives other rows."""

DIFFERENCES: dict[str, str] = {**_LENIENT, **_STRICT, **_OTHER_ROWS}
"""`scenario` for all of its reads, or `scenario#n` for its nth, to what Delta Lake does."""
