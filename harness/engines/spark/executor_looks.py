"""What must be known of files before their rows are read, found out by executors: the driver opens none of them.

Footers of Parquet and ORC files are fetched by jobs of the JVM, which need nothing on the executors but Spark
(`footer_job`); Avro files, and files that Hadoop cannot open by their names or stores, are looked at by a job in
Python, as their rows are read. A file that cannot be read fails whoever reads its rows, and not who asks for a frame
that it is a part of.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO

from harness.engines.shared.data_files import FileName, check_magic, missing_file
from harness.engines.shared.file_groups import Opened, ScanFile
from harness.engines.shared.head_worker import Ends, Head, HeadReader
from harness.engines.spark.footer_images import FooterImages, Image
from harness.engines.spark.footer_job import Found, Look, Text, decode
from harness.engines.spark.gateway import DiskFile, PlannedReads, hadoop_opens
from harness.engines.spark.hadoop_options import hadoop_options
from harness.engines.spark.worker_errors import unwrap
from harness.errors import HarnessError, RequestError, StorageError
from harness.files.orc import OrcTraits, orc_traits, schema_of_orc
from harness.model.schema import Field
from harness.plan.projection import ColumnSource
from harness.plan.scan_plan import ScanPlan

_MAGIC = 4
_MAX_TASKS = 64
_DENIED, _IRREGULAR, _FAILED = "D", "R", "S"
_FAULTS = {_DENIED: "permission denied", _IRREGULAR: "it is no regular file"}


@dataclass(frozen=True, slots=True)
class ExecutorLooks:
    """Looks at the files of a plan on executors; see `harness.engines.shared.file_groups.Looks`."""

    gateway: PlannedReads
    plan: ScanPlan
    images: FooterImages
    _opened: dict[str, Opened] = field(default_factory=dict)
    _disk: dict[str, DiskFile] = field(default_factory=dict)
    _imaged: dict[str, Image] = field(default_factory=dict)
    _brotli: set[str] = field(default_factory=set)
    _orc: dict[str, OrcTraits] = field(default_factory=dict)

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Looks at those of `files` that were not looked at.

        Raises:
            OutsideTableError: the table may not read a file.
            EngineError: a job failed.
        """
        new = {file.name.physical: file for file in files if file.name.physical not in self._opened}
        present = [file for file in new.values() if self._is_there(file)]
        jobs = {"parquet": self._look_at_footers, "orc": self._look_at_orc}
        by_jvm = [file for file in present if file.format in jobs and hadoop_opens(file.name.physical)]
        others = [file for file in present if file.format not in jobs or not hadoop_opens(file.name.physical)]
        for file_format, look in jobs.items():
            others += look([file for file in by_jvm if file.format == file_format])
        self._look_at_heads(others)

    def opened(self, file: ScanFile) -> Opened:
        """What is known of a file that was prefetched; its fault, if it cannot be read."""
        return self._opened[file.name.physical]

    def check_partition_values(self, file: ScanFile, fields: Sequence[Field], sources: Sequence[ColumnSource]) -> None:
        """As `file_groups.Looks` says, for the first file of a group."""
        image = self._imaged.get(file.name.physical)
        if image is not None:  # else it has no columns
            self.images.check_partition_values(image, file, fields, sources)

    def disk_files(self, physical: Sequence[str]) -> list[DiskFile]:
        """Files as they were when they were looked at."""
        return [self._disk[path] for path in physical]

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Whether pages of one of the files are in Brotli."""
        return any(file.physical in self._brotli for file in files)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """What the footer of an ORC file says beside its columns."""
        return self._orc[file.physical]

    def _is_there(self, file: ScanFile) -> bool:
        """Whether there may be a file to look at, by its name, and of a local one by its directory."""
        fault = self.plan.storage.fault(file.name.physical)
        if fault is not None:
            self._refuse(file, missing_file(file.name, fault, table=self.plan.table))
        return fault is None

    def _refuse(self, file: ScanFile, fault: HarnessError) -> None:
        self._opened[file.name.physical] = Opened((), None, fault=fault.within(table=self.plan.table))

    def _look_at_footers(self, files: Sequence[ScanFile]) -> list[ScanFile]:
        """Looks at Parquet files; gives back those that the JVM has no access to."""
        if not files:
            return []
        groups: dict[object, int] = {}
        numbers = [groups.setdefault((frozenset(file.constants), file.split), len(groups)) for file in files]
        physical = [file.name.physical for file in files]
        self.gateway.check_access(physical)
        looks = decode(self.gateway.look_at_footers(physical, numbers, hadoop_options(self.plan.storage, physical)))
        known: dict[int, Opened] = {}  # by the identity of the text, which `looks` holds
        alike = {id(look.text): (file, look) for file, look in zip(reversed(files), reversed(looks), strict=True)}
        firsts = [(file, look) for file, look in alike.values() if look.found in (Found.PARSED, Found.WHOLE)]
        images = [self._image(file.name, look) for file, look in firsts]
        for (_, look), found in zip(firsts, self.images.opened(images), strict=True):
            known[id(look.text)] = found
        for (file, _), image in zip(firsts, images, strict=True):
            self._imaged[file.name.physical] = image
        inaccessible = []
        for file, look in zip(files, looks, strict=True):
            path = file.name.physical
            self._disk[path] = DiskFile(path, look.size, look.modified)
            if _is_inaccessible(look):
                inaccessible.append(file)
            self._keep(file, look, known.get(id(look.text)))
        return inaccessible

    def _keep(self, file: ScanFile, look: Look, alike: Opened | None) -> None:
        path = file.name.physical
        match look.found:
            case Found.COLUMNLESS:
                self._opened[path] = Opened((), look.rows)
            case Found.FAULTY:
                self._refuse(file, _fault(file.name, look.text, self.plan.table))
            case Found.WHOLE | Found.PARSED:
                assert alike is not None
                assert look.text is not None
                if alike.fault is not None:
                    self._refuse(file, alike.fault)
                    return
                rows = alike.rows if look.found is Found.WHOLE else look.rows
                self._opened[path] = Opened(alike.schema, rows, legacy=alike.legacy)
                if look.text.brotli or (look.found is Found.WHOLE and self.images.is_brotli(self._imaged[path])):
                    self._brotli.add(path)

    def _image(self, file: FileName, look: Look) -> Image:
        assert look.text is not None
        data = look.text.data
        if look.found is Found.PARSED:
            return self.images.of_footer(file, data)
        return self.images.of_ends(file, data[:_MAGIC], data[_MAGIC:], look.size)

    def _look_at_orc(self, files: Sequence[ScanFile]) -> list[ScanFile]:
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
            if look.found is Found.FAULTY:
                self._refuse(file, _fault(file.name, look.text, self.plan.table))
            else:
                self._keep_orc(file, look)
        return [file for file, look in zip(files, looks, strict=True) if _is_inaccessible(look)]

    def _keep_orc(self, file: ScanFile, look: Look) -> None:
        assert look.text is not None
        path, named, ends = file.name.physical, str(file.name), look.text.data
        try:
            check_magic(file.name, ends[:_MAGIC], table=self.plan.table)
            # What lies between head and footer is not missed: all places in a footer count from the file's end.
            self._opened[path] = Opened(*schema_of_orc(BytesIO(ends), file=named))
            self._orc[path] = orc_traits(BytesIO(ends), file=named)
        except HarnessError as error:
            self._refuse(file, error)

    def _look_at_heads(self, files: Sequence[ScanFile]) -> None:
        if not files:
            return
        named = tuple((file.name, file.format) for file in files)
        reader = HeadReader(named, self.plan.storage, self.plan.table, self.plan.format)
        found = self.gateway.run_in_python(reader.batches, len(files), min(len(files), _MAX_TASKS))
        for number, pickled in zip(*(found.column(i).to_pylist() for i in range(2)), strict=True):
            self._keep_head(files[number], pickle.loads(pickled))  # of harness's own workers

    def _keep_head(self, file: ScanFile, look: Head | Ends | str) -> None:
        path = file.name.physical
        match look:
            case str():
                fault = unwrap(RuntimeError(look))
                assert fault is not None
                self._refuse(file, fault)
            case Head():
                self._disk[path] = DiskFile(path, look.size)
                self._opened[path] = Opened(look.schema, look.rows)
                if look.orc is not None:
                    self._orc[path] = look.orc
            case Ends():
                self._disk[path] = DiskFile(path, look.size)
                image = self._imaged[path] = self.images.of_ends(file.name, look.head, look.tail, look.size)
                (self._opened[path],) = self.images.opened([image])
                if self._opened[path].fault is None and self.images.is_brotli(image):
                    self._brotli.add(path)


def _is_inaccessible(look: Look) -> bool:
    return look.found is Found.FAULTY and look.text is not None and look.text.data[:1] == _FAILED.encode()


def _fault(file: FileName, text: Text | None, table: str) -> HarnessError:
    """What ails a file that the JVM could not look at."""
    told = "" if text is None else text.data.decode(errors="replace")
    if told.startswith(_FAILED):
        return StorageError(f"Cannot read file: its storage failed: {told[1:][:300]}", table=table, file=str(file))
    return missing_file(file, _FAULTS.get(told), table=table)
