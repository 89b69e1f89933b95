"""Looks at files by executors, before their rows are read: the driver opens none of them.

A job of the JVM reads the ends of Parquet and ORC files, and needs nothing on the executors but Spark; Python parses
them here. A job in Python looks at Avro files, and at files that Hadoop cannot open by their names or stores. A file
that cannot be read fails whoever reads its rows, and not who asks for a frame that the file is a part of. In a local
session the driver is the executor, and reads the footers of local Parquet files itself.

What only DuckDB reads in a footer, it reads in an image: a file of this process with the ends of the other.
"""

from __future__ import annotations

import pickle
import shutil
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.engines.data_files import FileName, check_magic, damaged, missing_file
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.file_groups import (
    DirectLooks,
    Faults,
    FileForm,
    Opened,
    ScanFiles,
    check_partition_values,
    looks_here,
)
from harness.engines.footers import (
    FOOTER,
    MOST_TRIED,
    Footer,
    failing_on,
    footers_and_faults,
    legacy_kinds,
    read_footers,
)
from harness.engines.spark.arrow_worker import Ends, Head, HeadReader, read_head, read_orc_traits
from harness.engines.spark.executor_python import run_in_python, unwrap
from harness.engines.spark.gateway import DiskFile, PlannedReads, hadoop_opens
from harness.engines.spark.hadoop_options import hadoop_options
from harness.errors import HarnessError, RequestError, StorageError
from harness.metadata.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.metadata.files.parquet import parse_elements, physical_schema
from harness.metadata.files.parquet_footer import BROTLI, CheckedFooter, parse_footer, parse_tail
from harness.metadata.model.arrow_values import Places
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field
from harness.metadata.plan.projection import ColumnSource
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.stores import Storage

_Known: TypeAlias = tuple[FileForm, int | None]
"""The form of a file, and its physical row count, None if only reading tells."""


class _Scratch:
    """A directory that goes when nobody holds this."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="harness-footers-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class FooterImages:
    """Parquet files as DuckDB reads them by their ends, in images that stay for as long as this is held."""

    plan: PlannedScan
    _scratch: _Scratch = field(default_factory=_Scratch)
    _numbers: count[int] = field(default_factory=count)
    _access: DuckDBFiles = field(default_factory=lambda: DuckDBFiles(cursor(), Storage()))

    def opened(self, file: FileName, ends: Ends) -> _Known | HarnessError:
        """A file whose footer Python does not parse; or its fault, in the words that a read by DuckDB has for it."""
        image = self._image(ends)
        try:
            footer = read_footers(self._access, [image], table=self.plan.table)[image.physical]
        except HarnessError as error:
            return _about(error, image, file)
        return _known(self.plan, footer.schema, footer)

    def check_partition_values(
        self,
        file: FileName,
        ends: Ends,
        fields: Sequence[Field],
        sources: Sequence[ColumnSource],
        constants: Mapping[int, Any],
    ) -> None:
        """Checks as `file_groups.check_partition_values` says."""
        table, image = self.plan.table, self._image(ends)
        try:
            if read_footers(self._access, [image], table=table)[image.physical].foreign:
                return
            with failing_on([image], self._access.storage, table=table, doing=FOOTER):
                check_partition_values(self._access, image, fields, sources, constants, table=table)
        except HarnessError as error:
            raise _about(error, image, file) from error

    def _image(self, ends: Ends) -> FileName:
        """A file that begins and ends as another; between the two it has a hole."""
        path = self._scratch.path / f"{next(self._numbers)}.parquet"
        with path.open("wb") as stream:
            stream.write(ends.head)
            stream.seek(max(0, ends.size - len(ends.tail)))
            stream.write(ends.tail)
        return FileName(str(path), PhysicalPath(str(path)))


def _known(plan: PlannedScan, schema: PhysicalSchema, footer: Footer | CheckedFooter) -> _Known:
    kinds: frozenset[str] = frozenset()
    if plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
        kinds = legacy_kinds(schema, footer.metadata)
    form = FileForm(
        format="parquet", schema=schema, legacy=kinds, foreign=isinstance(footer, Footer) and footer.foreign
    )
    return form, footer.rows


def _about(error: HarnessError, image: FileName, file: FileName) -> HarnessError:
    """The error as one about the file, of which the image is not known to anybody."""
    error.message = error.message.replace(image.physical, file.physical)
    error.file = str(file)
    return error


# The ends of Parquet and ORC files, as executors read them: the result of a `java/FileEnds.java`, decoded.
#
# Of each file it has a record of big-endian numbers: a kind, the size in bytes, when the file was modified, in ms since
# 1970, and the length of what follows. That is the first four bytes of the file and then its end (0), the length of an
# end that is longer than was asked for (1), or a letter (2): `M` missing or empty, `D` denied, `R` no regular file, `S`
# its storage failed, and how.


_RECORD = struct.Struct(">bqqi")
_LENGTH = struct.Struct(">q")
_READ, _LONG = 0, 1
_MAGIC_BYTES = 4


def decode(result: bytes) -> list[Ends | int | str]:
    """The ends of files, in the order in which these were given; or the length of an end; or a letter and more."""
    found: list[Ends | int | str] = []
    at = 0
    while at < len(result):
        kind, size, modified, length = _RECORD.unpack_from(result, at)
        start = at + _RECORD.size
        at = start + length
        if kind == _READ:
            head, tail = result[start : start + _MAGIC_BYTES], result[start + _MAGIC_BYTES : at]
            found.append(Ends(size, head, tail, modified))
        else:
            found.append(_LENGTH.unpack_from(result, start)[0] if kind == _LONG else result[start:at].decode())
    return found


ROUND_FILES = 1 << 13
ROUND_BYTES = 1 << 26
"""The most files and bytes of ends that cross in one round, which keeps the memory of the driver bounded."""
MOST_BYTES = 1 << 28
"""The longest end that is asked for."""


def _rounds(files: Sequence[tuple[_Wanted, int]]) -> Iterator[list[_Wanted]]:
    """Files in parts, given the lengths of their ends: of a part they are a round's bytes, or it is of one file."""
    part: list[_Wanted] = []
    total = 0
    for file, length in files:
        if part and total + length > ROUND_BYTES:
            yield part
            part, total = [], 0
        part.append(file)
        total += length
    if part:
        yield part


@lru_cache(maxsize=1024)
def _schema_of(schema: bytes) -> PhysicalSchema:
    return physical_schema(parse_elements(schema))


_BY_JVM = ("parquet", "orc")
_MAX_TASKS = 64
_DENIED, _IRREGULAR, _FAILED = "D", "R", "S"
_FAULTS = {_DENIED: "permission denied", _IRREGULAR: "it is not a regular file"}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file to look at. alike: the same for files that may be in one group."""

    name: FileName
    format: str
    alike: object

    @property
    def is_here(self) -> bool:
        """Whether this process reads its footer in a local session."""
        return self.format == "parquet" and is_local(self.name.physical)


@dataclass(slots=True)
class ExecutorLooks:
    """Looks at the files of a plan on executors; see `harness.engines.file_groups.Looks`."""

    gateway: PlannedReads
    plan: PlannedScan
    images: FooterImages
    _opened: dict[str, _Known | HarnessError] = field(default_factory=dict)
    _disk: dict[str, DiskFile] = field(default_factory=dict)
    _brotli: set[str] = field(default_factory=set)
    _orc: dict[str, OrcTraits] = field(default_factory=dict)
    _ends: dict[str, Ends] = field(default_factory=dict)
    _alike: set[object] = field(default_factory=set)
    _forms: dict[tuple[int, frozenset[str], bool], FileForm] = field(default_factory=dict)

    def prefetch(self, *parts: ScanFiles) -> None:
        """Looks at those of the files that were not looked at; raises OutsideTableError, and EngineError of a job."""
        new: dict[str, _Wanted] = {}
        for files in parts:
            alike: dict[object, int] = {}
            columns = (files.path, files.physical, files.format, files.partition.tolist(), files.split.tolist())
            for path, physical, format_, partition, split in zip(*columns, strict=True):
                if physical not in self._opened:
                    key = frozenset(files.constants[partition]), split
                    number = alike.setdefault(key, len(alike))
                    new[physical] = _Wanted(FileName(path, physical), format_, (files.are_data, number))
        present = []
        for file in new.values():
            fault = self.plan.storage.fault(file.name.physical)
            if fault is None:
                present.append(file)
            else:
                self._refuse(file, missing_file(file.name, fault, self.plan.storage, table=self.plan.table))
        if self.gateway.is_local:
            self._look_here([file for file in present if file.is_here])
            present = [file for file in present if not file.is_here]
        others = [file for file in present if file.format not in _BY_JVM or not hadoop_opens(file.name.physical)]
        for file_format in _BY_JVM:
            by_jvm = [file for file in present if file.format == file_format and hadoop_opens(file.name.physical)]
            others += self._look_at_ends(by_jvm)
        self._look_at_heads(others)

    def faults(self, files: ScanFiles) -> Faults:
        """Return why files that were prefetched cannot be read, by number."""
        found = ((number, self._opened[physical]) for number, physical in enumerate(files.physical))
        return {number: known for number, known in found if isinstance(known, HarnessError)}

    def opened(self, files: ScanFiles, numbers: Places) -> Opened:
        """Return some of the files, which were prefetched and have no fault."""
        found = [self._opened[physical] for physical in files.physical_of(numbers)]
        known = [file for file in found if not isinstance(file, HarnessError)]
        assert len(known) == len(found), "files with a fault are not opened"
        return Opened.of([form for form, _ in known], [rows for _, rows in known])

    def check_partition_values(
        self, files: ScanFiles, number: int, fields: Sequence[Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Checks as `file_groups.Looks` says, for the first file of a group."""
        (constants,) = files.partition_values(np.array([number]))
        file = _Wanted(files.name(number), files.format[number], None)
        known = self._opened[file.name.physical]
        if not constants or isinstance(known, HarnessError) or not known[0].schema:
            return
        if self.gateway.is_local and file.is_here:
            looks_here(self.plan).check_partition_values(files, number, fields, sources)
            return
        kept = self._ends.get(file.name.physical)
        for _, ends in self._read_ends([file]) if kept is None else [(file, kept)]:
            if isinstance(ends, Ends):
                self.images.check_partition_values(file.name, ends, fields, sources, constants)

    def disk_files(self, physical: Sequence[str]) -> list[DiskFile]:
        """Files as they were when they were looked at."""
        return [self._disk[path] for path in physical]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Tells whether pages of one of the files are in Brotli."""
        return any(file.physical in self._brotli for file in files)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Facts of the footer of an ORC file beside its columns."""
        return self._orc[file.physical]

    def _refuse(self, file: _Wanted, fault: HarnessError) -> None:
        self._opened[file.name.physical] = fault.within(table=self.plan.table)

    def _look_here(self, files: Sequence[_Wanted]) -> None:
        """Looks at local Parquet files from this process."""
        access = DuckDBFiles(cursor(), self.plan.storage)
        footers, faults = footers_and_faults(access, [file.name for file in files], table=self.plan.table)
        for file in files:
            path = file.name.physical
            footer = footers.get(path)
            if footer is None:
                self._refuse(file, faults[path])
                continue
            status = self.plan.storage.status(path)
            self._disk[path] = DiskFile(path, status.size, status.modified_ms or 0)
            self._opened[path] = self._shared(_known(self.plan, footer.schema, footer))
            if footer.is_brotli:
                self._brotli.add(path)

    def _look_at_ends(self, files: Sequence[_Wanted]) -> list[_Wanted]:
        """Looks at files of one format by their ends; gives back those that the JVM has no access to."""
        inaccessible = []
        schemas: dict[bytes, None] = {}
        try:
            for file, ends in self._read_ends(files):
                if isinstance(ends, Ends):
                    self._keep_ends(file, ends, schemas)
                elif isinstance(ends, str):
                    self._refuse(file, self._fault(file.name, ends))
                    inaccessible += [file] if ends.startswith(_FAILED) else []
                else:
                    self._refuse(file, damaged(f"{FOOTER}: it claims {ends} bytes; restore the file", file.name))
        except RequestError:
            if any(file.format != "orc" for file in files):
                raise
            return list(files)  # of a store that fsspec knows, and Hadoop does not
        return inaccessible

    def _read_ends(self, files: Sequence[_Wanted]) -> Iterator[tuple[_Wanted, Ends | int | str]]:
        """What `decode` gives of each file, in some order; a length only of an end that is too long to be read."""
        long: list[tuple[_Wanted, int]] = []
        for start in range(0, len(files), ROUND_FILES):
            part = files[start : start + ROUND_FILES]
            for file, ends in zip(part, self._read_round(part, ROUND_BYTES // len(part)), strict=True):
                if isinstance(ends, int) and ends <= MOST_BYTES:
                    long.append((file, ends))
                else:
                    yield file, ends
        for part in _rounds(long):
            yield from zip(part, self._read_round(part, MOST_BYTES), strict=True)

    def _read_round(self, files: Sequence[_Wanted], most: int) -> list[Ends | int | str]:
        physical = [file.name.physical for file in files]
        self.gateway.check_access(physical)
        return decode(self.gateway.read_ends(physical, hadoop_options(self.plan.storage, physical), most))

    def _keep_ends(self, file: _Wanted, ends: Ends, schemas: dict[bytes, None]) -> None:
        """Keeps what the ends of a file tell. schemas: those of files that were looked at before."""
        path = file.name.physical
        self._disk[path] = DiskFile(path, ends.size, ends.modified)
        if file.format == "orc":
            self._keep_orc(file, ends.head + ends.tail)
            return
        footer = None
        try:
            tail = None if self.plan.storage.untrusted else parse_tail(ends.tail, schemas)
            footer = parse_footer(ends.tail, ends.size, tail)
            known = None if footer is None else self._shared(_known(self.plan, _schema_of(footer.schema), footer))
        except (HarnessError, LookupError, ValueError):  # which a read of the image tells in full
            known = None
        if footer is None or known is None:
            self._opened[path] = self.images.opened(file.name, ends)
        else:
            self._opened[path] = known
            alike = (id(known[0]), file.alike)
            if alike not in self._alike:  # likely the first of a group, whose partition values are checked
                self._alike.add(alike)
                self._ends[path] = ends
            if len(schemas) < MOST_TRIED:
                schemas[footer.schema] = None
        if footer is not None and BROTLI in footer.codecs:
            self._brotli.add(path)

    def _shared(self, known: _Known) -> _Known:
        """The file with the first of the forms that are equal: a hash takes 0.2 µs a column of the schema."""
        form, rows = known
        key = (id(form.schema), form.legacy, form.foreign)
        return self._forms.setdefault(key, form), rows

    def _keep_orc(self, file: _Wanted, ends: bytes) -> None:
        path, named = file.name.physical, str(file.name)
        try:
            check_magic(file.name, ends[:_MAGIC_BYTES], table=self.plan.table)
            # What lies between head and footer is not missed: all places in a footer count from the file's end.
            schema, rows = schema_of_orc(BytesIO(ends), file=named)
            self._opened[path] = FileForm(format="orc", schema=schema), rows
            self._orc[path] = orc_traits(BytesIO(ends), file=named)
        except HarnessError as error:
            self._refuse(file, error)

    def _look_at_heads(self, files: Sequence[_Wanted]) -> None:
        if not files:
            return
        named = tuple((file.name, file.format) for file in files)
        reader = HeadReader(named, self.plan.storage, self.plan.table, self.plan.format)
        found = run_in_python(self.gateway.session, reader.batches, len(files), min(len(files), _MAX_TASKS))
        for number, pickled in zip(*(found.column(i).to_pylist() for i in range(2)), strict=True):
            self._keep_head(files[number], pickle.loads(pickled))  # of harness's own workers

    def _keep_head(self, file: _Wanted, look: Head | Ends | str) -> None:
        path = file.name.physical
        match look:
            case str():
                fault = unwrap(RuntimeError(look))
                assert fault is not None
                self._refuse(file, fault)
            case Head():
                self._disk[path] = DiskFile(path, look.size)
                self._opened[path] = FileForm(format=file.format, schema=look.schema), look.rows
                if look.orc is not None:
                    self._orc[path] = look.orc
            case Ends():
                self._keep_ends(file, look, {})

    def _fault(self, file: FileName, letter: str) -> HarnessError:
        """The error for a file that the JVM could not read, by what `decode` gives."""
        plan = self.plan
        if letter.startswith(_FAILED):
            reason = f"Cannot read file: its storage failed: {letter[1:][:300]}"
            return StorageError(reason, table=plan.table, file=str(file))
        return missing_file(file, _FAULTS.get(letter), plan.storage, table=plan.table)


# Looks by this process: a client of Spark Connect has the files' paths, and runs no job without harness on the server.


def client_looks(plan: PlannedScan) -> DirectLooks:
    """Looks at the files of a plan."""

    def open_other(name: FileName, file_format: str) -> tuple[PhysicalSchema, int | None]:
        return read_head(name, file_format, plan.storage, table=plan.table)

    return DirectLooks(DuckDBFiles(cursor(), plan.storage), plan, open_other)


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """Facts of footers beside the schema; see `harness.engines.spark.arrow_scan.FileTraits`."""

    storage: Storage
    is_brotli: Callable[[FileName], bool]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Tells whether the pages of one of the files are in Brotli."""
        return any(map(self.is_brotli, files))

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Facts of the footer of an ORC file beside its columns."""
        return read_orc_traits(file, self.storage)
