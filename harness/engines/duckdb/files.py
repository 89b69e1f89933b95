"""Files as DuckDB gets them: local ones by their paths, all others through `harness.engines.duckdb.store_files`.

A query names its files, and DuckDB parses the text of a lazy one three times: to bind it, to find what it reads, and to
run it. Of 10,000 files that is a megabyte, and takes as long as to read a quarter of them. So long lists are variables
of a connection of harness's own. On a user's connection they are text: a view of it shall need nothing but the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import wraps
from typing import ParamSpec, TypeVar

import duckdb

from harness.engines import sqltext
from harness.engines.duckdb.instance import is_own
from harness.errors import MissingFileError
from harness.storage.paths import is_local, local_path
from harness.storage.records import dataclass
from harness.storage.stores import Storage

_MANY = 100
"""Files from which on a variable is faster than text: it takes 0.2 ms, and saves some 15 µs a file."""


@dataclass(frozen=True, slots=True)
class DuckDBFiles:
    """The files of one storage, as SQL on one connection calls them."""

    connection: duckdb.DuckDBPyConnection
    storage: Storage
    _names: dict[str, str] = field(default_factory=dict)
    _items: dict[str, str] = field(default_factory=dict)

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
        """The list of files, as an expression for `read_parquet` and its like. Raises as `name`."""
        items = self._items
        for path in physical:
            if path not in items:
                items[path] = sqltext.glob_free(self.name(path))
        named = [items[path] for path in physical]
        if len(named) < _MANY or not is_own(self.connection):
            return f"[{', '.join(map(sqltext.text, named))}]"
        return f"getvariable('{self._variable(named)}')"

    def _variable(self, named: Sequence[str]) -> str:
        """The variable that holds a list; it is named by its content, so that the same list is the same text."""
        content = "\0".join(named).encode("utf-8", "surrogatepass")
        variable = f"harness_{hashlib.blake2b(content, digest_size=16).hexdigest()}"
        self.connection.execute(f"SET VARIABLE {variable} = $1", [named])
        return variable

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
        from harness.engines.duckdb.store_files import planned_files  # fsspec, which local files need not

        return planned_files(self.connection).admit(physical, self.storage, self.connection)


def forget(connection: duckdb.DuckDBPyConnection, *, unless: Callable[[str], bool]) -> None:
    """Let SQL of a connection read no more the files that it was let read, and that no other connection was.

    unless: whether something still needs a file, by the text that stands for it in SQL.
    """
    if connection.list_filesystems():
        from harness.engines.duckdb import store_files

        store_files.forget(connection, unless=unless)


# DuckDB's words about files, in a caller's words: physical paths for its names, and its errors as one line.
#
# DuckDB keeps of an exception that Python raises under it a text alone: with a traceback and all that led to it, in a
# form that changes with Python and with DuckDB (3.11 and 3.13, 1.5 and 2.0 differ). So what is to be read in it stands
# between two marks.


P = ParamSpec("P")
R = TypeVar("R")
_NAME = re.compile(r"harness-[0-9a-f]{32}://\d+/")
_BEGIN, _END = "harness says: ", " (as harness says)"


def marked(call: Callable[P, R]) -> Callable[P, R]:
    """A function that DuckDB calls, whose failures `said` finds again; nothing of what led to one is told with it."""

    @wraps(call)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return call(*arguments, **named)
        except Exception as error:
            raise OSError(f"{_BEGIN}{type(error).__name__}: {error}{_END}") from None

    return run


def physical(name: str) -> str:
    """The physical path of a file, by the name under which DuckDB has it."""
    return _NAME.sub("", name)


def is_of_storage(reason: str) -> bool:
    """Whether what DuckDB says is a StorageError of `PlannedFiles`, of which it keeps the text alone."""
    return reason.startswith("StorageError: ")


def said(error: BaseException) -> str:
    """The text of an error of DuckDB, as one line, with physical paths; of one that began in Python, what that said."""
    text = str(error)
    told = text.partition(_BEGIN)[2].partition(_END)[0]
    return " ".join(physical(told or text).split())
