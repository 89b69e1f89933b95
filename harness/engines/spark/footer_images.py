"""Footers that executors found, as files that DuckDB reads: what a read must know of them is told by one reader.

An image is a file of the process's own, of which nothing but the footer is there.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from harness.engines.data_files import FileName
from harness.engines.direct_looks import check_partition_values
from harness.engines.duckdb.files import DuckDBFiles
from harness.engines.duckdb.instance import cursor
from harness.engines.file_groups import Opened, ScanFile
from harness.engines.footers import FOOTER, Footer, codecs, failing_on, is_dated, legacy_files, read_footers
from harness.errors import HarnessError
from harness.metadata.model.schema import Field
from harness.metadata.plan.projection import ColumnSource
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Image:
    """The footer of a file, at `path`. is_part: whether row groups are left out, and places are not in it."""

    file: FileName
    path: str
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

    plan: ScanPlan
    _scratch: _Scratch = field(default_factory=_Scratch)
    _numbers: count[int] = field(default_factory=count)
    _access: DuckDBFiles = field(default_factory=lambda: DuckDBFiles(cursor(), Storage()))

    def of_footer(self, file: FileName, footer: bytes) -> Image:
        """The image of a file by a part of its footer, whose counts were looked at."""
        path = self._path()
        path.write_bytes(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC)
        return Image(file, str(path), is_part=True)

    def of_ends(self, file: FileName, head: bytes, tail: bytes, size: int) -> Image:
        """The image of a file of `size` bytes by how it begins and ends; between the two it has a hole."""
        path = self._path()
        with path.open("wb") as stream:
            stream.write(head)
            stream.seek(max(0, size - len(tail)))
            stream.write(tail)
        return Image(file, str(path), is_part=False)

    def opened(self, images: Sequence[Image]) -> list[Opened]:
        """What is known of the files, of each for itself."""
        try:
            return self._opened(images)
        except HarnessError as error:
            if len(images) == 1:
                return [Opened((), None, fault=self._about(error, images[0]))]
            return [found for image in images for found in self.opened([image])]

    def is_brotli(self, image: Image) -> bool:
        """Whether pages of the first row group are in that codec."""
        return "BROTLI" in codecs(self._access, [image.path])

    def check_partition_values(
        self, image: Image, file: ScanFile, fields: Sequence[Field], sources: Sequence[ColumnSource]
    ) -> None:
        """As `file_groups.Looks` says. `image`: of that file."""
        table = self.plan.table
        try:
            with failing_on([image.name], self._access.storage, table=table, doing=FOOTER):
                check_partition_values(self._access, image.name, fields, sources, file.constants, table=table)
        except HarnessError as error:
            raise self._about(error, image) from error

    def _opened(self, images: Sequence[Image]) -> list[Opened]:
        footers = self._footers(images)
        legacy: dict[str, frozenset[str]] = {}
        if self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
            found = {image.path: footers[image.path] for image in images}
            doubtful = [path for path, footer in found.items() if footer.may_be_legacy and is_dated(footer.schema)]
            with failing_on([image.name for image in images], Storage(), table=self.plan.table, doing=FOOTER):
                legacy = legacy_files(self._access, doubtful)
        pairs = [(footers[image.path], legacy.get(image.path, frozenset())) for image in images]
        return [Opened(footer.schema, footer.rows, legacy=kinds) for footer, kinds in pairs]

    def _footers(self, images: Sequence[Image]) -> dict[str, Footer]:
        found: dict[str, Footer] = {}
        for is_part in (True, False):
            names = [image.name for image in images if image.is_part is is_part]
            found |= read_footers(self._access, names, table=self.plan.table, are_images=is_part)
        return found

    def _about(self, error: HarnessError, image: Image) -> HarnessError:
        """The error as one about the file, of which the image is not known to anybody."""
        error.message = error.message.replace(image.path, image.file.physical)
        error.file = str(image.file)
        return error

    def _path(self) -> Path:
        return self._scratch.path / f"{next(self._numbers)}.parquet"
