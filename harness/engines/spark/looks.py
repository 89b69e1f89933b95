"""Looks at files by executors, before their rows are read: the driver opens none of them.

Jobs of the JVM fetch the footers of Parquet and ORC files, and need nothing on the executors but Spark. A job in Python
looks at Avro files, and at files that Hadoop cannot open by their names or stores. A file that cannot be read fails
whoever reads its rows, and not who asks for a frame that the file is a part of.

A fetched footer becomes an image, a file of this process that holds nothing else. DuckDB reads it, as every footer.
"""

from __future__ import annotations

import enum
import pickle
import shutil
import struct
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness.engines.data_files import FileName, check_magic, missing_file
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.file_groups import DirectLooks, FileForm, Opened, ScanFiles, check_partition_values
from harness.engines.footers import FOOTER, Footer, codecs, failing_on, legacy_files, read_footers
from harness.engines.spark.arrow_worker import Ends, Head, HeadReader, read_head, read_orc_traits
from harness.engines.spark.executor_python import run_in_python, unwrap
from harness.engines.spark.gateway import DiskFile, PlannedReads, hadoop_opens
from harness.engines.spark.hadoop_options import hadoop_options
from harness.errors import HarnessError, RequestError, StorageError
from harness.metadata.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.metadata.model.arrow_values import Places
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.model.schema import Field
from harness.metadata.plan.projection import ColumnSource
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.stores import Storage

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Image:
    """The footer of a file, at `path`. is_part: whether row groups are left out, and places are not in it."""

    file: FileName
    path: PhysicalPath
    is_part: bool

    @property
    def name(self) -> FileName:
        """The image as a file to be read."""
        return FileName(self.path, self.path)


class _Scratch:
    """A directory that goes when nobody holds this."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="harness-footers-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class FooterImages:
    """Images of footers, for as long as this is held."""

    plan: PlannedScan
    _scratch: _Scratch = field(default_factory=_Scratch)
    _numbers: count[int] = field(default_factory=count)
    _access: DuckDBFiles = field(default_factory=lambda: DuckDBFiles(cursor(), Storage()))

    def of_footer(self, file: FileName, footer: bytes) -> Image:
        """The image of a file by a part of its footer, whose counts were looked at."""
        path = self._path()
        path.write_bytes(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC)
        return Image(file, PhysicalPath(str(path)), is_part=True)

    def of_ends(self, file: FileName, head: bytes, tail: bytes, size: int) -> Image:
        """The image of a file of `size` bytes by how it begins and ends; between the two it has a hole."""
        path = self._path()
        with path.open("wb") as stream:
            stream.write(head)
            stream.seek(max(0, size - len(tail)))
            stream.write(tail)
        return Image(file, PhysicalPath(str(path)), is_part=False)

    def opened(self, images: Sequence[Image]) -> list[tuple[FileForm, int] | HarnessError]:
        """The form and row count of each file by its image, or why it cannot be read."""
        footers: dict[PhysicalPath, Footer] = {}
        legacy: dict[str, frozenset[str]] = {}
        try:
            for is_part in (True, False):
                names = [image.name for image in images if image.is_part is is_part]
                footers |= read_footers(self._access, names, table=self.plan.table, are_images=is_part)
            if self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
                with failing_on([image.name for image in images], Storage(), table=self.plan.table, doing=FOOTER):
                    legacy = legacy_files(self._access, footers)
        except HarnessError as error:
            if len(images) == 1:
                return [self._about(error, images[0])]
            return [found for image in images for found in self.opened([image])]
        pairs = [(footers[image.path], legacy.get(image.path, frozenset())) for image in images]
        return [
            (FileForm(format="parquet", schema=footer.schema, legacy=kinds, foreign=footer.foreign), footer.rows)
            for footer, kinds in pairs
        ]

    def is_brotli(self, image: Image) -> bool:
        """Tells whether pages of the first row group are in that codec."""
        return "BROTLI" in codecs(self._access, [image.path])

    def check_partition_values(
        self, image: Image, fields: Sequence[Field], sources: Sequence[ColumnSource], constants: Mapping[int, Any]
    ) -> None:
        """Checks as `file_groups.check_partition_values` says."""
        table = self.plan.table
        try:
            with failing_on([image.name], self._access.storage, table=table, doing=FOOTER):
                check_partition_values(self._access, image.name, fields, sources, constants, table=table)
        except HarnessError as error:
            raise self._about(error, image) from error

    def _about(self, error: HarnessError, image: Image) -> HarnessError:
        """The error as one about the file, of which the image is not known to anybody."""
        error.message = error.message.replace(image.path, image.file.physical)
        error.file = str(image.file)
        return error

    def _path(self) -> Path:
        return self._scratch.path / f"{next(self._numbers)}.parquet"


# The ends of Parquet and ORC files, as executors found them: the result of a `java/FooterJob.java`, decoded.
#
# Per chunk of files: their number; a record of each; the number of texts; and of each text whether pages are in Brotli,
# its length and its bytes. All numbers are big-endian. Files that are alike but for their rows share one text of a
# chunk, an image of the footer; so what crosses does not grow with the width of the table times its files.


_RECORD = np.dtype([("kind", "i1"), ("text", ">i4"), ("size", ">i8"), ("modified", ">i8"), ("rows", ">i8")])
_COUNT = struct.Struct(">i")
_TEXT = struct.Struct(">?i")


class Seen(enum.IntEnum):
    """The outcome of a look at a file."""

    PARSED = 0
    """The text is an image of the footer: version, schema, row count, first row group, metadata about calendars."""
    COLUMNLESS = 1
    """The file has rows and no columns; there is no text."""
    WHOLE = 2
    """The footer is not as is usual: the text is the file's first four bytes, and then its end."""
    FAULTY = 3
    """The text is a letter: `M` missing or empty, `D` denied, `R` no regular file, `S` its storage failed, and how."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at one file.

    size: in bytes. modified: ms since 1970. rows: by the footer; 0 unless that was parsed.
    text: files that are alike share it. brotli: whether pages of the first row group are in that codec.
    """

    found: Seen
    size: int
    modified: int
    rows: int
    text: bytes | None
    brotli: bool


def decode(result: bytes) -> list[Look]:
    """The looks, in the order in which files were given."""
    looks: list[Look] = []
    at = 0
    while at < len(result):
        (count,) = _COUNT.unpack_from(result, at)
        records = np.frombuffer(result, _RECORD, count, at + _COUNT.size)
        at += _COUNT.size + records.nbytes
        (count,) = _COUNT.unpack_from(result, at)
        at += _COUNT.size
        texts: list[tuple[bytes | None, bool]] = []
        for _ in range(count):
            brotli, length = _TEXT.unpack_from(result, at)
            at += _TEXT.size
            texts.append((result[at : at + length], brotli))
            at += length
        texts.append((None, False))  # which the number -1 names
        columns = [records[name].tolist() for name in ("kind", "text", "size", "modified", "rows")]
        looks += [
            Look(Seen(kind), size, modified, rows, *texts[text])
            for kind, text, size, modified, rows in zip(*columns, strict=True)
        ]
    return looks


_MAGIC_BYTES = 4
_MAX_TASKS = 64
_DENIED, _IRREGULAR, _FAILED = "D", "R", "S"
_FAULTS = {_DENIED: "permission denied", _IRREGULAR: "it is no regular file"}


_Known: TypeAlias = tuple[FileForm, int | None]
"""The form of a file, and its physical row count, None if only reading tells."""


@dataclass(slots=True)
class ExecutorLooks:
    """Looks at the files of a plan on executors; see `harness.engines.file_groups.Looks`."""

    gateway: PlannedReads
    plan: PlannedScan
    images: FooterImages
    _opened: dict[str, _Known | HarnessError] = field(default_factory=dict)
    _disk: dict[str, DiskFile] = field(default_factory=dict)
    _imaged: dict[str, Image] = field(default_factory=dict)
    _brotli: set[str] = field(default_factory=set)
    _orc: dict[str, OrcTraits] = field(default_factory=dict)

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
                self._refuse(file.name, missing_file(file.name, fault, self.plan.storage, table=self.plan.table))
        jobs = {"parquet": self._look_at_footers, "orc": self._look_at_orc}
        by_jvm = [file for file in present if file.format in jobs and hadoop_opens(file.name.physical)]
        others = [file for file in present if file.format not in jobs or not hadoop_opens(file.name.physical)]
        for file_format, look in jobs.items():
            others += look([file for file in by_jvm if file.format == file_format])
        self._look_at_heads(others)

    def faults(self, files: ScanFiles) -> Mapping[int, HarnessError]:
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
        image = self._imaged.get(files.physical[number])
        if image is not None:  # else it has no columns
            (constants,) = files.partition_values(np.array([number]))
            self.images.check_partition_values(image, fields, sources, constants)

    def disk_files(self, physical: Sequence[str]) -> list[DiskFile]:
        """Files as they were when they were looked at."""
        return [self._disk[path] for path in physical]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Tells whether pages of one of the files are in Brotli."""
        return any(file.physical in self._brotli for file in files)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Facts of the footer of an ORC file beside its columns."""
        return self._orc[file.physical]

    def _refuse(self, name: FileName, fault: HarnessError) -> None:
        self._opened[name.physical] = fault.within(table=self.plan.table)

    def _look_at_footers(self, files: Sequence[_Wanted]) -> list[_Wanted]:
        """Looks at Parquet files; gives back those that the JVM has no access to."""
        if not files:
            return []
        groups: dict[object, int] = {}
        numbers = [groups.setdefault(file.alike, len(groups)) for file in files]
        physical = [file.name.physical for file in files]
        self.gateway.check_access(physical)
        looks = decode(self.gateway.look_at_footers(physical, numbers, hadoop_options(self.plan.storage, physical)))
        alike = {id(look.text): (file.name, look) for file, look in zip(reversed(files), reversed(looks), strict=True)}
        firsts = [(name, look) for name, look in alike.values() if look.found in (Seen.PARSED, Seen.WHOLE)]
        images = []
        for name, look in firsts:
            data = look.text or b""
            if look.found is Seen.PARSED:
                images.append(self.images.of_footer(name, data))
            else:
                head, tail = data[:_MAGIC_BYTES], data[_MAGIC_BYTES:]
                images.append(self.images.of_ends(name, head, tail, look.size))
        self._imaged.update({name.physical: image for (name, _), image in zip(firsts, images, strict=True)})
        opened = zip(firsts, self.images.opened(images), strict=True)
        known = {id(look.text): found for (_, look), found in opened}  # of the texts, which `looks` holds
        inaccessible = []
        for file, look in zip(files, looks, strict=True):
            path = file.name.physical
            self._disk[path] = DiskFile(path, look.size, look.modified)
            if _is_inaccessible(look):
                inaccessible.append(file)
            self._keep(file.name, look, known.get(id(look.text)))
        return inaccessible

    def _keep(self, name: FileName, look: Look, alike: tuple[FileForm, int] | HarnessError | None) -> None:
        path = name.physical
        match look.found:
            case Seen.COLUMNLESS:
                self._opened[path] = _COLUMNLESS, look.rows
            case Seen.FAULTY:
                self._refuse(name, _fault(name, look.text, self.plan))
            case Seen.WHOLE | Seen.PARSED:
                assert alike is not None
                if isinstance(alike, HarnessError):
                    self._refuse(name, alike)
                    return
                form, rows = alike
                self._opened[path] = form, rows if look.found is Seen.WHOLE else look.rows
                if look.brotli or (look.found is Seen.WHOLE and self.images.is_brotli(self._imaged[path])):
                    self._brotli.add(path)

    def _look_at_orc(self, files: Sequence[_Wanted]) -> list[_Wanted]:
        """Looks at ORC files; gives back those that the JVM has no access to."""
        if not files:
            return []
        physical = [file.name.physical for file in files]
        try:
            self.gateway.check_access(physical)
        except RequestError:
            return list(files)  # of a store that fsspec knows, and Hadoop does not
        looks = decode(self.gateway.fetch_orc_tails(physical, hadoop_options(self.plan.storage, physical)))
        for file, look in zip(files, looks, strict=True):
            self._disk[file.name.physical] = DiskFile(file.name.physical, look.size, look.modified)
            if look.found is Seen.FAULTY:
                self._refuse(file.name, _fault(file.name, look.text, self.plan))
                continue
            assert look.text is not None
            path, named, ends = file.name.physical, str(file.name), look.text
            try:
                check_magic(file.name, ends[:_MAGIC_BYTES], table=self.plan.table)
                # What lies between head and footer is not missed: all places in a footer count from the file's end.
                schema, rows = schema_of_orc(BytesIO(ends), file=named)
                self._opened[path] = FileForm(format="orc", schema=schema), rows
                self._orc[path] = orc_traits(BytesIO(ends), file=named)
            except HarnessError as error:
                self._refuse(file.name, error)
        return [file for file, look in zip(files, looks, strict=True) if _is_inaccessible(look)]

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
                self._refuse(file.name, fault)
            case Head():
                self._disk[path] = DiskFile(path, look.size)
                self._opened[path] = FileForm(format=file.format, schema=look.schema), look.rows
                if look.orc is not None:
                    self._orc[path] = look.orc
            case Ends():
                self._disk[path] = DiskFile(path, look.size)
                image = self._imaged[path] = self.images.of_ends(file.name, look.head, look.tail, look.size)
                (self._opened[path],) = self.images.opened([image])
                if not isinstance(self._opened[path], HarnessError) and self.images.is_brotli(image):
                    self._brotli.add(path)


_COLUMNLESS = FileForm(format="parquet", schema=())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file to look at. alike: the same for files whose footers the JVM may answer by one text."""

    name: FileName
    format: str
    alike: object


def _is_inaccessible(look: Look) -> bool:
    return look.found is Seen.FAULTY and (look.text or b"").startswith(_FAILED.encode())


def _fault(file: FileName, text: bytes | None, plan: PlannedScan) -> HarnessError:
    """The error for a file that the JVM could not look at."""
    told = (text or b"").decode(errors="replace")
    if told.startswith(_FAILED):
        return StorageError(f"Cannot read file: its storage failed: {told[1:][:300]}", table=plan.table, file=str(file))
    return missing_file(file, _FAULTS.get(told), plan.storage, table=plan.table)


# Looks by this process: a client of Spark Connect has the files' paths, and runs no job without harness on the server.


_MOST_FOOTERS = 64


def client_looks(plan: PlannedScan) -> DirectLooks:
    """Looks at the files of a plan."""

    def open_other(name: FileName, file_format: str) -> tuple[PhysicalSchema, int | None]:
        return read_head(name, file_format, plan.storage, table=plan.table)

    return DirectLooks(DuckDBFiles(cursor(), plan.storage), plan, open_other)


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """Facts of footers beside the schema; see `harness.engines.spark.arrow_scan.FileTraits`."""

    storage: Storage

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Tells whether the pages of a Parquet file are in Brotli; of many files, only the first ones are looked at."""
        first = [file.physical for file in files[:_MOST_FOOTERS]]
        return "BROTLI" in codecs(DuckDBFiles(cursor(), self.storage), first)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """Facts of the footer of an ORC file beside its columns."""
        return read_orc_traits(file, self.storage)
