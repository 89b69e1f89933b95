"""What must be known of files before their rows are read, found out by this process: where it cannot reach the JVM.

That is the client of Spark Connect, which has the files' paths and no way to run a job without harness on the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.engines.shared.data_files import FileName
from harness.engines.shared.direct_looks import DirectLooks
from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.file_groups import Opened, ScanFile
from harness.engines.shared.footers import codecs
from harness.engines.shared.heads import read_head, read_orc_traits
from harness.files.orc import OrcTraits
from harness.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage

_MOST_FOOTERS = 64


def client_looks(plan: ScanPlan) -> DirectLooks:
    """Looks at the files of a plan."""

    def open_other(file: ScanFile) -> Opened:
        return Opened(*read_head(file.name, file.format, plan.storage, table=plan.table))

    return DirectLooks(DuckDBFiles(cursor(), plan.storage), plan, open_other)


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """What footers say beside the schema; see `harness.engines.spark.native_reads.FileTraits`."""

    storage: Storage

    def needs_brotli(self, files: Sequence[FileName]) -> bool:
        """Whether the pages of a Parquet file are in Brotli; of many files, only the first ones are looked at.

        Tables are written with one codec as a rule. Where that is not so, Spark fails on the file, and says which codec
        it does not have.
        """
        first = [file.physical for file in files[:_MOST_FOOTERS]]
        return "BROTLI" in codecs(DuckDBFiles(cursor(), self.storage), first)

    def orc_traits(self, file: FileName) -> OrcTraits:
        """What the footer of an ORC file says beside its columns."""
        return read_orc_traits(file, self.storage)
