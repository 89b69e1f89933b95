"""Limits on the resources that a table's metadata may demand, each with the reason for its number.

A few bytes can claim gigabytes: a compressed block, a count of items that take no bytes, a bitmap of runs. Decoders
check a limit before they allocate the claimed memory. All defaults are above the demands of files from real writers.
For a larger table, raise the limit with `open_table(limits=Limits(…))` or `--set limits.NAME=VALUE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from harness.errors import LimitError, RequestError
from harness.storage import records

_MiB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The maximum that one metadata file of a table may demand.

    Attributes:
        document_bytes: Size of one JSON document after decompression, as Python stores its text: one byte per
            character, or two or four if a character needs them. Iceberg metadata with 100,000 snapshots is 100 MB.
            Parsing needs three times the size of the text.
        document_values: Values in one JSON document, including the keys of objects. Each takes up to 90 bytes of
            memory. The same 100,000 snapshots have 5 million values.
        block_bytes: Size of one block of an Avro file after decompression. Writers end a block after 16 KB to 64 MB.
        items: Items of one list or map in a manifest. This is one item per column or row group of a data file,
            and the widest tables have some 50,000 columns.
        empty_values: Values of an Avro file that take no bytes, for example nulls, so that only a count claims that
            they exist. A column that is null in every row has one for each row.
        spare_records: Records of a manifest, or rows of a Parquet file in a Delta log, in excess of the file's bytes.
            Each record that a writer produces names a file, which takes more than a byte even if it is compressed well.
            Only a few equal records take less.
        spare_bytes: Memory for the columns of a Parquet file in a Delta log, in excess of 100 times the file's size.
            Checkpoints of real writers grow 5 to 30 times.
        rows: Rows of a file that is read into memory as a whole: an ORC file, a position delete file, or a Parquet file
            that DuckDB would read wrongly. A few bytes of run lengths can claim any number of rows, and each row takes
            8 bytes or more. Real files have up to about ten million rows.
        schema_types: Types in the schema of one Avro file, counting a named type at each use. The limit allows
            for the same 50,000 columns.
        nesting: Levels of a type. The deepest types come from Protocol Buffers, which allow 100 levels.
        positions: Deleted rows of one data file. Each takes 8 bytes while it is looked up.
        actions: Actions of one commit. An action names one file, so the default means petabytes written at once.
    """

    document_bytes: int = 256 * _MiB
    document_values: int = 8_000_000
    block_bytes: int = 256 * _MiB
    items: int = 1_000_000
    empty_values: int = 1 << 20
    spare_records: int = 1 << 18
    spare_bytes: int = 256 * _MiB
    rows: int = 1 << 26
    schema_types: int = 100_000
    nesting: int = 100
    positions: int = 1 << 28
    actions: int = 10_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise RequestError(
                    f"Invalid limit {name}={value!r}: expected a whole number of at least 0", options=("limits",)
                )

    def check(self, name: str, actual: int, unit: str, *, file: str | None = None, allowed: int | None = None) -> None:
        """Raise LimitError if a demand exceeds a limit.

        Args:
            name: The limit.
            actual: The demand of the file, or the part of it that is known.
            unit: The unit, for example "bytes of JSON".
            file: The file, for the message.
            allowed: The maximum to apply instead of the limit, or None.
        """
        most = getattr(self, name) if allowed is None else allowed
        if actual > most:
            raise limit_error(name, f"{actual:,} {unit}, {most:,} are allowed", file=file)


DEFAULT = Limits()
"""The limits of tables that are opened without explicit limits."""


def limit_error(name: str, demand: str, *, file: str | None = None) -> LimitError:
    """Return the error for a file that exceeds a limit. `demand` names what the file needs and the maximum."""
    message = f"The file exceeds a limit of harness: {demand}. If you trust it, raise the option limits.{name}"
    return LimitError(message, cause="LimitExceeded", file=file, options=("limits",))


_Numbers = TypeVar("_Numbers")


def parse_numbers(kind: type[_Numbers], word: str, texts: Mapping[str, str]) -> _Numbers:
    """Parse the fields of a class of numbers, for example `Limits`, from digits. Missing fields keep their defaults.

    Args:
        kind: The class. It has slots.
        word: The word for a number in messages, for example `limit`.
        texts: Digits by name of the field.

    Raises:
        RequestError: A name is unknown, or a text is not a whole number.
    """
    names: Sequence[str] = kind.__slots__  # type: ignore[attr-defined]  # a dataclass with slots
    values: dict[str, int | str] = {}
    for name, text in texts.items():
        if name not in names:
            raise RequestError(f"Unknown {word} {name!r}: there are {', '.join(names)}", options=(f"{word}s",))
        digits = text.replace("_", "")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 19
        values[name] = int(digits) if is_number else text  # the class refuses the text
    return kind(**values)


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The resources that engines may use in this process. SQL cannot change them.

    Attributes:
        directories: Directories whose files may be read, absolute, with links resolved.
        memory_bytes: Memory for buffers.
        scratch: The directory for spilling data that does not fit in memory.
        scratch_bytes: The maximum size of spilled data.
    """

    directories: tuple[str, ...]
    memory_bytes: int
    scratch: str
    scratch_bytes: int


_confined: list[Confinement] = []


def confine(confinement: Confinement) -> None:
    """Confine all engines that this process creates. Call it once, before the first engine is created."""
    assert not _confined
    _confined.append(confinement)


def confinement() -> Confinement | None:
    """Return the resources that engines of this process may use, or None if they are not restricted."""
    return _confined[0] if _confined else None


_DUCKDB_INTERRUPTED = "Query interrupted"


class contained:
    """A context that turns exhausted memory or recursion into a LimitError that names the table or file.

    Ctrl-C remains a KeyboardInterrupt: DuckDB discards the exception of the signal handler and raises a RuntimeError
    instead. This is a class because a read enters about 40 such contexts, and a generator would take four times the
    calls.
    """

    __slots__ = ("_file", "_table")

    def __init__(self, *, table: str | None = None, file: str | None = None) -> None:
        self._table, self._file = table, file

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, RecursionError):
            raise self._limit("NestedTooDeeply", "it is nested more deeply than harness reads") from error
        if isinstance(error, MemoryError):
            raise self._limit("OutOfMemory", "it needs more memory than is available") from error
        if isinstance(error, RuntimeError) and str(error) == _DUCKDB_INTERRUPTED:
            raise KeyboardInterrupt from error

    def _limit(self, cause: str, reason: str) -> LimitError:
        return LimitError(f"Cannot read the table: {reason}", cause=cause, table=self._table, file=self._file)
