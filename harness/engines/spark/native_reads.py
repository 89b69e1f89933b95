"""Which files Spark's own readers give exactly as harness's do; all others are read by `arrow_scan`.

ORC goes by a list of types that were tried on Spark 4.3 against harness's reader, vectorised and not. Not among them:

- timestamps: Spark cuts nanoseconds, and turns `timestamp` by the zones of writer and JVM;
- dates: Spark shifts those before 1582, and in a file in the proleptic calendar still those from 1582-10-05 to -14;
- text in a file with `char` columns: Spark takes their blanks away, and the physical schema does not show them;
- fixed: their length is checked by harness only.

Geometries are read by `arrow_scan`, which gives them in one form (frontier F1.6): Spark's binary would be the stored
bytes, and its own types are encoded anew. A file without columns is never read by Spark: its readers refuse it, or find
no rows (`engines.columnless`).

Parquet pages in Brotli are read by `arrow_scan` too, because Spark comes without that codec, and so are files in which
the dotted path of a column may also be that of another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from harness.engines.arrow_files import geometries, variants
from harness.engines.data_files import FileName
from harness.metadata.files.orc import OrcTraits
from harness.metadata.model.file_schema import walk_stored
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DecimalType,
    Field,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    StringType,
    StructType,
    TimeType,
)
from harness.metadata.plan.projection import ColumnSource, PhysicalField, PhysicalSchema, Stored

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_ROW_INDEX = "_tmp_metadata_row_index"
"""Spark fills a column of this name itself."""
_POSITIONAL = "_col"
"""Where all columns are called so, Spark takes them for the unnamed columns of old Hive, and goes by position."""


class FileTraits(Protocol):
    """What footers say beside the schema; raises HarnessError naming the file."""

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Whether the pages of one of some Parquet files are in Brotli."""

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Of an ORC file."""


def reads_natively(
    file_format: str,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    *,
    positions: bool,
    files: Sequence[FileName] = (),
    traits: FileTraits | None = None,
) -> bool:
    """Whether Spark's own reader gives the columns that `sources` read, exactly.

    Args:
        schema: the physical schema that all files have.
        positions: whether the rows' positions are needed; Spark has them of Parquet files only.
        files, traits: the files, and what their footers say beside the schema (of ORC about text; the codec of
            Parquet); of ORC files the answer is the careful one without traits.

    Raises:
        MissingFileError, CorruptFileError, UnsupportedError: a footer cannot be read; naming the file.
    """
    if not schema or any(variants(fields, sources)) or any(geometries(fields, sources)):
        return False
    places = {source.place for source in sources if isinstance(source, Stored)}
    used = [schema[place] for place in sorted(places)]
    match file_format:
        case "parquet":
            is_known = not any(isinstance(f.type, OpaqueType) for f in walk_stored(used))
            distinct = _has_distinct_names(schema) and _has_distinct_names(used, folded=str.casefold)
            plain = is_known and distinct and all(f.name != _ROW_INDEX for f in used)
            return plain and _has_plain_paths(schema) and not (traits is not None and traits.needs_brotli(files))
        case "orc":
            return not positions and _is_plain_orc(schema, used) and _says_nothing_else(used, files, traits)
        case _:
            return False


def _has_plain_paths(level: Sequence[PhysicalField]) -> bool:
    """Whether no column's path, joined by dots, can be another's: `a.b` beside a struct `a`, at any level.

    Parquet's library for Java finds dictionaries by such texts: a filter on a column `a.b` beside a struct `a` with a
    field `b` skips row groups by the wrong dictionary, and so loses rows.
    """
    dotted = [f.name for f in level if "." in f.name]
    apart = not any(name.startswith(f"{f.name}.") for name in dotted for f in level)
    return apart and all(_has_plain_paths(f.children) for f in level)


def _has_distinct_names(level: Sequence[PhysicalField], folded: Callable[[str], str] = str) -> bool:
    """Spark finds columns by name, lists and maps by their parts.

    Names that are told apart by case alone are found in the private session. But rules of the optimizer, and Spark's
    row reader within structs, go by the session that executes, which may be the user's: an error, or nulls.
    """
    names = [folded(f.name) for f in level]
    return len(set(names)) == len(names) and all(
        not isinstance(f.type, StructType) or _has_distinct_names(f.children, folded) for f in walk_stored(level)
    )


def _is_plain_orc(schema: PhysicalSchema, used: Sequence[PhysicalField]) -> bool:
    if schema and all(f.name.startswith(_POSITIONAL) for f in schema):
        return False
    return all(_is_exact(f) for f in walk_stored(used)) and all(map(_is_plainly_named, used))


def _is_plainly_named(stored: PhysicalField) -> bool:
    """Spark tells ORC the columns in a text of its own grammar."""
    inner = all(map(_is_plainly_named, stored.children))
    return inner and _PLAIN_NAME.fullmatch(stored.name) is not None


def _is_exact(stored: PhysicalField) -> bool:
    match stored.type:
        case BooleanType() | IntegerType() | FloatType() | DecimalType() | StringType() | BinaryType():
            return True
        case TimeType() | GeometryType() | GeographyType():
            return True  # stored as long and binary
        case StructType() | ListType() | MapType():
            return True
        case _:
            return False


def _says_nothing_else(used: Iterable[PhysicalField], files: Sequence[FileName], traits: FileTraits | None) -> bool:
    """Whether the footers have none of the traits that would change the values of `used`."""
    if not any(isinstance(f.type, StringType) for f in walk_stored(used)):
        return True
    return traits is not None and not any(traits.orc_traits(file).pads_text for file in files)
