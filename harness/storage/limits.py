"""Limits on the demands of a table's metadata, each number with its reason.

A few bytes can claim gigabytes: a compressed block, a count of items that take no bytes, a bitmap of runs. Decoders ask
here before they make what the bytes claim. Every default is beyond what tables of writers hold; who has a larger one
raises the limit (`open_table(limits=Limits(…))`, `--set limits.NAME=VALUE`).
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
    """The most that one file of a table's metadata may ask for.

    document_bytes: of one JSON document after decompression, as Python holds its text: a byte per character, two or
        four if a character needs them. Iceberg metadata of 100,000 snapshots is 100 MB; parsing holds the text three
        times.
    document_values: values in one JSON document, an object's keys counted too: up to 90 bytes of memory each. The same
        100,000 snapshots have 5 million.
    block_bytes: of one block of an Avro file after decompression. Writers end a block after 16 KB to 64 MB.
    items: of one list or map in a manifest, which has one for each column or row group of a data file. The widest
        tables have some 50,000 columns.
    empty_values: values of an Avro file that take no byte of it, such as nulls: only their count says that they are
        there. A column that is null in every row of a data file has one for each.
    spare_records: how many more records a manifest or a Parquet file of the log may hold than it has bytes. Records of
        writers name a file each, which takes more than a byte however well it is compressed; a few equal ones do not.
    spare_bytes: how many more bytes than a hundred times its own the columns of a Parquet file of the log may take in
        memory. Checkpoints of writers grow 5 to 30 times.
    rows: of one file that is read into memory whole: an ORC file, one of position deletes, or a Parquet file that
        DuckDB would not read right. A few bytes of run lengths claim any number of rows, each of which takes 8 bytes or
        more. Files of writers have up to some ten million.
    schema_types: in the schema of one Avro file, a named type counted at each use. The same 50,000 columns.
    nesting: levels of a type. Protocol Buffers, from which the deepest come, allow 100.
    positions: deleted rows of one data file, which take 8 bytes each while they are looked up.
    actions: of one commit: a file each, so this is a table of petabytes written at once.
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
                    f"Invalid limit {name}={value!r}: expected a whole number from 0 on", options=("limits",)
                )

    def check(self, name: str, actual: int, what: str, *, file: str | None = None, allowed: int | None = None) -> None:
        """Raises LimitError for what is beyond a limit.

        name: of the limit.
        found: what the file asks for, or the part of it that is known.
        what: names it, such as "bytes of JSON".
        allowed: in place of the limit, where more than it is allowed.
        """
        most = getattr(self, name) if allowed is None else allowed
        if actual > most:
            raise limit_error(name, f"{actual:,} {what}, {most:,} are allowed", file=file)


DEFAULT = Limits()
"""For tables that were opened without limits of their own."""


def limit_error(name: str, demand: str, *, file: str | None = None) -> LimitError:
    """The error for a file beyond a limit. asked: what it asks for, and what is allowed."""
    message = f"The file asks for more than harness reads: {demand}. If you trust it, raise the option limits.{name}"
    return LimitError(message, cause="LimitExceeded", file=file, options=("limits",))


_Numbers = TypeVar("_Numbers")


def parse_numbers(kind: type[_Numbers], word: str, texts: Mapping[str, str]) -> _Numbers:
    """Limits, or other numbers by name, from digits; names without a text keep their defaults.

    word: the number's name in messages, such as `limit`.

    Raises RequestError: there is no such name, or the text is no whole number.
    """
    names: Sequence[str] = kind.__slots__  # type: ignore[attr-defined]  # of a dataclass with slots
    values: dict[str, int | str] = {}
    for name, text in texts.items():
        if name not in names:
            raise RequestError(f"Unknown {word} {name!r}: there are {', '.join(names)}", options=(f"{word}s",))
        digits = text.replace("_", "")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 19
        values[name] = int(digits) if is_number else text  # which the class refuses
    return kind(**values)


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The part of the machine that engines may use in this process; no SQL can change it.

    directories: whose files may be read, absolute, links resolved.
    memory_bytes: of buffers.
    scratch, scratch_bytes: the directory in which they sort what does not fit in memory, and how much of it.
    """

    directories: tuple[str, ...]
    memory_bytes: int
    scratch: str
    scratch_bytes: int


_confined: list[Confinement] = []


def confine(confinement: Confinement) -> None:
    """Confines every engine that this process makes from now on; to be called once, before the first."""
    assert not _confined
    _confined.append(confinement)


def confinement() -> Confinement | None:
    """The resources that engines of this process may use; None: all that the user may."""
    return _confined[0] if _confined else None


_DUCKDB_INTERRUPTED = "Query interrupted"


class contained:
    """A context that turns the end of memory, or of Python's stack, into a LimitError that names what was read.

    Ctrl-C stays a KeyboardInterrupt: DuckDB drops what the signal's handler raised, and raises a RuntimeError. A class,
    because a read enters some 40 of these, and a generator takes four times the calls.
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
            raise self._limit("OutOfMemory", "it asks for more memory than there is") from error
        if isinstance(error, RuntimeError) and str(error) == _DUCKDB_INTERRUPTED:
            raise KeyboardInterrupt from error

    def _limit(self, cause: str, reason: str) -> LimitError:
        return LimitError(f"Cannot read the table: {reason}", cause=cause, table=self._table, file=self._file)
