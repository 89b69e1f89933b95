"""Files as DuckDB gets them: local ones by their paths, all others through `harness.engines.shared.store_files`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import duckdb

from harness.engines.shared import sqltext
from harness.errors import MissingFileError
from harness.records import dataclass
from harness.storage.paths import is_local, local_path
from harness.storage.stores import Storage


@dataclass(frozen=True, slots=True)
class DuckDBFiles:
    """The files of one storage, as SQL on one connection calls them."""

    connection: duckdb.DuckDBPyConnection
    storage: Storage
    _names: dict[str, str] = field(default_factory=dict)
    _literals: dict[str, str] = field(default_factory=dict)

    def name(self, physical: str) -> str:
        """How DuckDB calls a file. SQL of the connection may read it from now on.

        Raises:
            MissingFileError: what has such a path cannot be a file (iceberg 7.6).
            RequestError: no installed file system serves its scheme.
        """
        if physical not in self._names:
            self._names[physical] = self._admitted(physical)
        return self._names[physical]

    def listed(self, physical: Sequence[str]) -> str:
        """A list literal of files, for `read_parquet` and its like. Raises as `name`."""
        literals = self._literals
        for path in physical:
            if path not in literals:
                literals[path] = sqltext.text(sqltext.glob_free(self.name(path)))
        return f"[{', '.join([literals[path] for path in physical])}]"

    def end(self, physical: str, length: int) -> bytes:
        """The last bytes of a local file, see `Storage.end`; SQL may then read it, as `name` says.

        Who opened a file needs not look once more whether it can be opened, which takes as long as to read its end.
        """
        found = self.storage.end(physical, length)
        self._names[physical] = local_path(physical)
        return found

    def _admitted(self, physical: str) -> str:
        fault = self.storage.fault(physical)
        if fault is not None:
            raise MissingFileError(f"Cannot read file: {fault}", file=physical, rule="iceberg 7.6")
        if is_local(physical):
            return local_path(physical)
        from harness.engines.shared.store_files import planned_files  # fsspec, which local files need not

        return planned_files(self.connection).admit(physical, self.storage, self.connection)


def forget(connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
    """Let SQL of a connection read no more the files that it was let read, and that no other connection was.

    unless: whether something still needs a file, by the text that stands for it in SQL.
    """
    if connection.list_filesystems():
        from harness.engines.shared import store_files

        store_files.forget(connection, unless=unless)
