"""Schemas and row counts of files, read by executors before any rows. The driver opens no file.

A JVM job reads the ends of Parquet and ORC files. It needs only Spark on the executors, and Python parses the ends
here. A Python job reads Avro files, and files that Hadoop cannot open because of their names or stores. A file that
cannot be read fails queries that read its rows, but a frame that includes the file can still be created. In a local
session the driver is the executor, and reads the footers of local Parquet files itself.

If only DuckDB can read a footer, it reads the footer from an image: a local file with the same first and last bytes.
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

from harness.engines.data_files import FileName, check_magic, corrupt_file, missing_file
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.file_groups import (
    Faults,
    FileForm,
    LocalFileOpener,
    OpenedFiles,
    ScanFiles,
    check_partition_values,
    local_opener,
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
from harness.engines.spark.arrow_worker import EndBytes, FileHead, HeadReader, read_head, read_orc_traits
from harness.engines.spark.executor_python import run_in_python, unwrap
from harness.engines.spark.gateway import DiskFile, PlannedReads, hadoop_opens
from harness.engines.spark.hadoop_options import hadoop_options
from harness.errors import HarnessError, RequestError, StorageError
from harness.metadata.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.metadata.files.parquet import parse_elements, physical_schema
from harness.metadata.files.parquet_footer import BROTLI, CheckedFooter, parse_footer, parse_tail
from harness.metadata.model.arrow_values import Indices
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field
from harness.metadata.plan.projection import ColumnSource
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath, is_local
from harness.storage.stores import Storage

_FormAndRows: TypeAlias = tuple[FileForm, int | None]
"""The form of a file and its physical row count.

The count is None if the file has to be read completely to count its rows.
"""


class _Scratch:
    """A temporary directory that is removed when the object is garbage-collected."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="harness-footers-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class FooterImages:
    """Lets DuckDB read Parquet footers from images. The image files exist as long as the object."""

    plan: PlannedScan
    _scratch: _Scratch = field(default_factory=_Scratch)
    _numbers: count[int] = field(default_factory=count)
    _access: DuckDBFiles = field(default_factory=lambda: DuckDBFiles(cursor(), Storage()))

    def opened(self, file: FileName, ends: EndBytes) -> _FormAndRows | HarnessError:
        """Open a file whose footer Python cannot parse.

        If it cannot be read, return the error that a read by DuckDB raises.
        """
        image = self._image(ends)
        try:
            footer = read_footers(self._access, [image], table=self.plan.table)[image.physical]
        except HarnessError as error:
            return _about_file(error, image, file)
        return _form_and_rows(self.plan, footer.schema, footer)

    def check_partition_values(
        self,
        file: FileName,
        ends: EndBytes,
        fields: Sequence[Field],
        sources: Sequence[ColumnSource],
        constants: Mapping[int, Any],
    ) -> None:
        """Check a file as described in `file_groups.check_partition_values`."""
        table, image = self.plan.table, self._image(ends)
        try:
            if read_footers(self._access, [image], table=table)[image.physical].foreign:
                return
            with failing_on([image], self._access.storage, table=table, doing=FOOTER):
                check_partition_values(self._access, image, fields, sources, constants, table=table)
        except HarnessError as error:
            raise _about_file(error, image, file) from error

    def _image(self, ends: EndBytes) -> FileName:
        """Write a file with the same size and the same first and last bytes. The rest is a hole."""
        path = self._scratch.path / f"{next(self._numbers)}.parquet"
        with path.open("wb") as stream:
            stream.write(ends.head)
            stream.seek(max(0, ends.size - len(ends.tail)))
            stream.write(ends.tail)
        return FileName(str(path), PhysicalPath(str(path)))


def _form_and_rows(plan: PlannedScan, schema: PhysicalSchema, footer: Footer | CheckedFooter) -> _FormAndRows:
    kinds: frozenset[str] = frozenset()
    if plan.lookup.is_delta:  # no Iceberg writer ever used the Julian calendar (iceberg 6.9)
        kinds = legacy_kinds(schema, footer.metadata)
    form = FileForm(
        format="parquet", schema=schema, legacy=kinds, foreign=isinstance(footer, Footer) and footer.foreign
    )
    return form, footer.rows


def _about_file(error: HarnessError, image: FileName, file: FileName) -> HarnessError:
    """Return the error with the name of the file in place of the image's name."""
    error.message = error.message.replace(image.physical, file.physical)
    error.file = str(file)
    return error


# Results of `java/FileEnds.java`, which reads the ends of Parquet and ORC files on executors.
#
# Each file has a record of big-endian numbers: a kind, the size in bytes, the modification time in ms since 1970, and
# the length of the following data. By kind, the data is: 0, the first four bytes of the file and its end; 1, the length
# of an end that is longer than requested; 2, a letter: `M` missing or empty, `D` access denied, `R` not a regular file,
# or `S` and a reason if the storage failed.


_RECORD = struct.Struct(">bqqi")
_LENGTH = struct.Struct(">q")
_READ, _LONG = 0, 1
_MAGIC_BYTES = 4


def decode(result: bytes) -> list[EndBytes | int | str]:
    """Decode the result of a job, which has one entry per file.

    Returns:
        For each file, its end; or the length of its end if the end is too long; or a letter and a reason if the file
            cannot be read.
    """
    results: list[EndBytes | int | str] = []
    at = 0
    while at < len(result):
        kind, size, modified, length = _RECORD.unpack_from(result, at)
        start = at + _RECORD.size
        at = start + length
        if kind == _READ:
            head, tail = result[start : start + _MAGIC_BYTES], result[start + _MAGIC_BYTES : at]
            results.append(EndBytes(size, head, tail, modified))
        else:
            results.append(_LENGTH.unpack_from(result, start)[0] if kind == _LONG else result[start:at].decode())
    return results


ROUND_FILES = 1 << 13
ROUND_BYTES = 1 << 26
"""The most files and bytes that one round transfers. This limits the driver's memory."""
MOST_BYTES = 1 << 28
"""The longest end that is read."""


def _rounds(files: Sequence[tuple[_FileToOpen, int]]) -> Iterator[list[_FileToOpen]]:
    """Split files into parts whose ends fit in one round. `files` has the length of each file's end.

    A part with a single file may exceed the limit.
    """
    part: list[_FileToOpen] = []
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
class _FileToOpen:
    """A file to open. Only files with equal `group_key` can belong to the same file group."""

    name: FileName
    format: str
    group_key: object

    @property
    def is_here(self) -> bool:
        """True if this process, in a local session, reads the footer of the file."""
        return self.format == "parquet" and is_local(self.name.physical)


@dataclass(slots=True)
class ExecutorFileOpener:
    """Opens the files of a plan on executors, see `harness.engines.file_groups.FileOpener`."""

    gateway: PlannedReads
    plan: PlannedScan
    images: FooterImages
    _opened: dict[str, _FormAndRows | HarnessError] = field(default_factory=dict)
    _disk: dict[str, DiskFile] = field(default_factory=dict)
    _brotli: set[str] = field(default_factory=set)
    _orc: dict[str, OrcTraits] = field(default_factory=dict)
    _ends: dict[str, EndBytes] = field(default_factory=dict)
    _group_keys: set[object] = field(default_factory=set)
    _forms: dict[tuple[int, frozenset[str], bool], FileForm] = field(default_factory=dict)

    def prefetch(self, *parts: ScanFiles) -> None:
        """Open those files that have not been opened yet.

        Raises:
            OutsideTableError: A file is outside the allowed roots.
            EngineError: A job failed.
        """
        new: dict[str, _FileToOpen] = {}
        for files in parts:
            key_numbers: dict[object, int] = {}
            columns = (files.path, files.physical, files.format, files.partition.tolist(), files.split.tolist())
            for path, physical, format_, partition, split in zip(*columns, strict=True):
                if physical not in self._opened:
                    key = frozenset(files.constants[partition]), split
                    number = key_numbers.setdefault(key, len(key_numbers))
                    new[physical] = _FileToOpen(FileName(path, physical), format_, (files.are_data, number))
        present = []
        for file in new.values():
            fault = self.plan.storage.fault(file.name.physical)
            if fault is None:
                present.append(file)
            else:
                self._refuse(file, missing_file(file.name, fault, self.plan.storage, table=self.plan.table))
        if self.gateway.is_local:
            self._open_here([file for file in present if file.is_here])
            present = [file for file in present if not file.is_here]
        others = [file for file in present if file.format not in _BY_JVM or not hadoop_opens(file.name.physical)]
        for file_format in _BY_JVM:
            by_jvm = [file for file in present if file.format == file_format and hadoop_opens(file.name.physical)]
            others += self._open_by_ends(by_jvm)
        self._open_in_python(others)

    def faults(self, files: ScanFiles) -> Faults:
        """Return the errors of prefetched files that cannot be read, by file number."""
        entries = ((number, self._opened[physical]) for number, physical in enumerate(files.physical))
        return {number: result for number, result in entries if isinstance(result, HarnessError)}

    def opened(self, files: ScanFiles, numbers: Indices) -> OpenedFiles:
        """Return the forms and row counts of files that were prefetched without a fault."""
        entries = [self._opened[physical] for physical in files.physical_of(numbers)]
        files_opened = [file for file in entries if not isinstance(file, HarnessError)]
        assert len(files_opened) == len(entries), "files with a fault are not opened"
        return OpenedFiles.from_forms([form for form, _ in files_opened], [rows for _, rows in files_opened])

    def check_partition_values(
        self, files: ScanFiles, number: int, fields: Sequence[Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Check the first file of a group, see `file_groups.FileOpener`."""
        (constants,) = files.partition_values(np.array([number]))
        file = _FileToOpen(files.name(number), files.format[number], None)
        result = self._opened[file.name.physical]
        if not constants or isinstance(result, HarnessError) or not result[0].schema:
            return
        if self.gateway.is_local and file.is_here:
            local_opener(self.plan).check_partition_values(files, number, fields, sources)
            return
        cached = self._ends.get(file.name.physical)
        for _, ends in self._read_ends([file]) if cached is None else [(file, cached)]:
            if isinstance(ends, EndBytes):
                self.images.check_partition_values(file.name, ends, fields, sources, constants)

    def disk_files(self, physical: Sequence[str]) -> list[DiskFile]:
        """Return files with the sizes and times that they had when they were opened."""
        return [self._disk[path] for path in physical]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Return whether any of the files has pages compressed with Brotli."""
        return any(file.physical in self._brotli for file in files)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Return the `OrcTraits` of an ORC file."""
        return self._orc[file.physical]

    def _refuse(self, file: _FileToOpen, fault: HarnessError) -> None:
        self._opened[file.name.physical] = fault.within(table=self.plan.table)

    def _open_here(self, files: Sequence[_FileToOpen]) -> None:
        """Open local Parquet files in this process."""
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
            self._opened[path] = self._shared(_form_and_rows(self.plan, footer.schema, footer))
            if footer.is_brotli:
                self._brotli.add(path)

    def _open_by_ends(self, files: Sequence[_FileToOpen]) -> list[_FileToOpen]:
        """Open files of one format by their ends. Return the files that the JVM cannot access."""
        inaccessible = []
        schemas: dict[bytes, None] = {}
        try:
            for file, ends in self._read_ends(files):
                if isinstance(ends, EndBytes):
                    self._keep_ends(file, ends, schemas)
                elif isinstance(ends, str):
                    self._refuse(file, self._fault(file.name, ends))
                    inaccessible += [file] if ends.startswith(_FAILED) else []
                else:
                    self._refuse(file, corrupt_file(f"{FOOTER}: it claims {ends} bytes; restore the file", file.name))
        except RequestError:
            if any(file.format != "orc" for file in files):
                raise
            return list(files)  # the table's store is known to fsspec but not to Hadoop
        return inaccessible

    def _read_ends(self, files: Sequence[_FileToOpen]) -> Iterator[tuple[_FileToOpen, EndBytes | int | str]]:
        """Yield the result of `decode` for each file, in any order.

        A length is yielded only if the end is too long to be read.
        """
        long: list[tuple[_FileToOpen, int]] = []
        for start in range(0, len(files), ROUND_FILES):
            part = files[start : start + ROUND_FILES]
            for file, ends in zip(part, self._read_round(part, ROUND_BYTES // len(part)), strict=True):
                if isinstance(ends, int) and ends <= MOST_BYTES:
                    long.append((file, ends))
                else:
                    yield file, ends
        for part in _rounds(long):
            yield from zip(part, self._read_round(part, MOST_BYTES), strict=True)

    def _read_round(self, files: Sequence[_FileToOpen], most: int) -> list[EndBytes | int | str]:
        physical = [file.name.physical for file in files]
        self.gateway.check_access(physical)
        return decode(self.gateway.read_ends(physical, hadoop_options(self.plan.storage, physical), most))

    def _keep_ends(self, file: _FileToOpen, ends: EndBytes, schemas: dict[bytes, None]) -> None:
        """Parse and store the end of a file. `schemas` holds the schemas of files that were opened before."""
        path = file.name.physical
        self._disk[path] = DiskFile(path, ends.size, ends.modified)
        if file.format == "orc":
            self._keep_orc(file, ends.head + ends.tail)
            return
        footer = None
        try:
            tail = None if self.plan.storage.untrusted else parse_tail(ends.tail, schemas)
            footer = parse_footer(ends.tail, ends.size, tail)
            result = (
                None if footer is None else self._shared(_form_and_rows(self.plan, _schema_of(footer.schema), footer))
            )
        except (HarnessError, LookupError, ValueError):  # reading the image reports the error in full
            result = None
        if footer is None or result is None:
            self._opened[path] = self.images.opened(file.name, ends)
        else:
            self._opened[path] = result
            key = (id(result[0]), file.group_key)
            if key not in self._group_keys:  # probably the first of its group, whose partition values will be checked
                self._group_keys.add(key)
                self._ends[path] = ends
            if len(schemas) < MOST_TRIED:
                schemas[footer.schema] = None
        if footer is not None and BROTLI in footer.codecs:
            self._brotli.add(path)

    def _shared(self, result: _FormAndRows) -> _FormAndRows:
        """Replace the form by an equal form that is already known.

        Forms are compared by identity afterwards, because hashing a form takes 0.2 µs per column of its schema.
        """
        form, rows = result
        key = (id(form.schema), form.legacy, form.foreign)
        return self._forms.setdefault(key, form), rows

    def _keep_orc(self, file: _FileToOpen, ends: bytes) -> None:
        path, name = file.name.physical, str(file.name)
        try:
            check_magic(file.name, ends[:_MAGIC_BYTES], table=self.plan.table)
            # The missing middle does not matter: all offsets in a footer count from the file's end.
            schema, rows = schema_of_orc(BytesIO(ends), file=name)
            self._opened[path] = FileForm(format="orc", schema=schema), rows
            self._orc[path] = orc_traits(BytesIO(ends), file=name)
        except HarnessError as error:
            self._refuse(file, error)

    def _open_in_python(self, files: Sequence[_FileToOpen]) -> None:
        if not files:
            return
        names = tuple((file.name, file.format) for file in files)
        reader = HeadReader(names, self.plan.storage, self.plan.table, self.plan.format)
        results = run_in_python(self.gateway.session, reader.batches, len(files), min(len(files), _MAX_TASKS))
        for number, pickled in zip(*(results.column(i).to_pylist() for i in range(2)), strict=True):
            self._keep_result(files[number], pickle.loads(pickled))  # pickled by harness's own workers

    def _keep_result(self, file: _FileToOpen, result: FileHead | EndBytes | str) -> None:
        path = file.name.physical
        match result:
            case str():
                fault = unwrap(RuntimeError(result))
                assert fault is not None
                self._refuse(file, fault)
            case FileHead():
                self._disk[path] = DiskFile(path, result.size)
                self._opened[path] = FileForm(format=file.format, schema=result.schema), result.rows
                if result.orc is not None:
                    self._orc[path] = result.orc
            case EndBytes():
                self._keep_ends(file, result, {})

    def _fault(self, file: FileName, letter: str) -> HarnessError:
        """Return the error for a file that the JVM could not read, from its letter."""
        plan = self.plan
        if letter.startswith(_FAILED):
            reason = f"Cannot read file: its storage failed: {letter[1:][:300]}"
            return StorageError(reason, table=plan.table, file=str(file))
        return missing_file(file, _FAULTS.get(letter), plan.storage, table=plan.table)


# A client of Spark Connect opens files in its own process: it knows their paths, and the server may not have harness.


def client_opener(plan: PlannedScan) -> LocalFileOpener:
    """Return an opener for the files of a plan that works in the client's process."""

    def open_other(name: FileName, file_format: str) -> tuple[PhysicalSchema, int | None]:
        return read_head(name, file_format, plan.storage, table=plan.table)

    return LocalFileOpener(DuckDBFiles(cursor(), plan.storage), plan, open_other)


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """The `FileTraits` of files that the client's process reads, see `harness.engines.spark.arrow_scan`."""

    storage: Storage
    is_brotli: Callable[[FileName], bool]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Return whether any of the files has pages compressed with Brotli."""
        return any(map(self.is_brotli, files))

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Return the `OrcTraits` of an ORC file."""
        return read_orc_traits(file, self.storage)
