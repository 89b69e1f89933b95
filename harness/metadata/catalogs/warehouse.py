"""A warehouse directory as a catalog, whose tables are found in the directory.

    warehouse = open_warehouse("warehouse")
    warehouse.tables(("db",))
    harness.open_table("db.orders", catalog=warehouse)

A directory is a table if it contains `_delta_log`, or a directory `metadata` with Iceberg metadata files. All other
directories are namespaces. `sales.db`, the directory name of a database in Hive and Spark, is the namespace `sales`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import AmbiguousTableError, HarnessError, TableNotFoundError
from harness.metadata.catalogs.catalog import (
    Catalog,
    Name,
    TableLocation,
    missing_table_error,
    name_text,
    nearest_names,
)
from harness.metadata.model.arguments import check_arguments, validate_call
from harness.storage.gate import Roots
from harness.storage.paths import PhysicalPath, canonical_path, expanded, is_local, join, local_path, redact
from harness.storage.stores import Storage

_DATABASE = ".db"
_DELTA, _ICEBERG = "_delta_log", "metadata"
_METADATA_FILE = ".metadata.json"
_HINT = "version-hint.text"
_DEEPEST = 8
"""The maximum depth of namespaces."""
_MOST_AROUND = 500
"""The maximum number of directories to search for a hint."""
_SHOWN = 3
"""The maximum number of names in a hint."""


@validate_call
def open_warehouse(
    location: str | os.PathLike[str], *, name: str | None = None, storage_options: Mapping[str, object] | None = None
) -> Catalog:
    """Return the tables below a directory as a catalog.

    Args:
        location: The directory, a local path or a URI.
        name: The name of the catalog. None: the name of the directory.
        storage_options: Storage options as for `open_table`, also used for the tables.

    Raises:
        TableNotFoundError: There is no such directory.
        StorageError: The storage failed.
    """
    check_arguments({"warehouse": location})
    return _open(location, name=name, storage_options=storage_options)


def _open(
    location: str | os.PathLike[str], *, name: str | None = None, storage_options: Mapping[str, object] | None = None
) -> Warehouse:
    root, options = PhysicalPath(expanded(os.fspath(location))), dict(storage_options or {})
    stores = None if is_local(local_path(root)) else frozenset({canonical_path(root).store})
    storage = Storage(options, stores=stores, roots=Roots.for_table(root))
    if not storage.is_directory(root):
        raise TableNotFoundError(
            "Cannot open a warehouse: there is no such directory; check the path", table=redact(root)
        )
    last_part = local_path(root).rstrip("/").rpartition("/")[2]
    return Warehouse(location=root, name=name or last_part or "warehouse", storage=storage)


def no_table_error(location: PhysicalPath, storage: Storage) -> TableNotFoundError:
    """Return the error for a path without a table, with a hint about tables nearby."""
    if storage.is_directory(location):
        reason = "it holds neither metadata/*.metadata.json (Iceberg) nor _delta_log (Delta)"
    else:
        reason = "there is no such directory or metadata file"
    hint = None if storage.untrusted else nearby_tables_hint(local_path(location).rstrip("/"))
    message = f"Cannot find a table: {reason}; {hint or 'check the path'}"
    return TableNotFoundError(message, cause="MetadataNotFound", table=location)


def nearby_tables_hint(path: str) -> str | None:
    """Return a hint about tables in or next to a local directory, or None if there is no hint.

    There is no hint without tables nearby, or with too many directories to search.
    """
    if not path or not is_local(path):
        return None
    parent, slash, name = path.rpartition("/")
    try:
        if inside := _tables_in(path):
            return f"there are tables in it, such as {inside}; harness list {path} lists them"
        around = _open(parent or slash or ".")
        if parent and around.format_of(around.location) is not None:
            return f"{parent} is a table"
        names = around.storage.directories(around.location)
        folders = [(folder,) for folder in names if folder != name and _is_visible(folder)]
        if similar_paths := [f"{parent}{slash}{folder}" for (folder,) in nearest_names((name,), folders)]:
            return f"did you mean {' or '.join(similar_paths)}"
        tables = _tables_in(around.location)
    except (HarnessError, OSError):  # the directory does not exist or is not accessible
        return None
    return f"{parent or slash or 'this directory'} has {tables}" if tables else None


def local_table_hint(name: Name) -> str | None:
    """Return advice to use a path, if the parts of a name are a path to a table in the working directory, else None."""
    path = "/".join((".", *name))
    is_table = all(map(_is_part, name)) and any(os.path.isdir(join(path, inner)) for inner in (_DELTA, _ICEBERG))
    return f"there is a table at {path}; use its path, in SQL in quotes" if is_table else None


def _tables_in(path: str) -> str:
    """Return the names of the first tables in a local directory, or an empty text for very large directories."""
    warehouse = _open(path) if os.path.isdir(path) else None
    if warehouse is None or len(warehouse.storage.directories(warehouse.location)) > _MOST_AROUND:
        return ""
    return ", ".join(name for (name,) in warehouse.tables()[:_SHOWN])


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """A directory of tables as a `harness.metadata.catalogs.catalog.Catalog`.

    Attributes:
        location: The directory.
        name: The name of the catalog.
        storage: The storage that reads the directory.
    """

    location: PhysicalPath
    name: str
    storage: Storage = field(repr=False)

    def __repr__(self) -> str:
        return f"Warehouse({redact(self.location)!r}, name={self.name!r})"

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """Return the directories in a namespace that are not tables."""
        folders = [_last_part(path) for path in self.paths(parent, are_tables=False)]
        return tuple(sorted({(*parent, folder.removesuffix(_DATABASE) or folder) for folder in folders}))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """Return the directories in a namespace that are tables."""
        return tuple(sorted({(*namespace, _last_part(path)) for path in self.paths(namespace, are_tables=True)}))

    def paths(self, namespace: Name = (), *, are_tables: bool) -> list[PhysicalPath]:
        """Return the sorted paths of the tables in a namespace, or of the namespaces in it."""
        if not are_tables and len(namespace) >= _DEEPEST:
            return []
        inside = [(path, each) for path in self._directories(namespace) for each in self.storage.directories(path)]
        paths = [join(path, each) for path, each in inside if _is_visible(each)]
        return sorted(
            path
            for path in paths
            if not self._leads_out(path)
            and (self.format_of(path) is not None) is are_tables
            # Links to namespaces are not listed, so that each table is listed once, under the real name of its
            # namespace.
            and (are_tables or not _is_link(path))
        )

    def locate(self, name: Name) -> TableLocation:
        """Return the location of a table. A name is ambiguous if both `sales` and `sales.db` contain the table."""
        places = [join(path, name[-1]) for path in self._directories(name[:-1])] if name and _is_part(name[-1]) else []
        formats = {path: kind for path in places if (kind := self.format_of(path)) is not None}
        if not formats:
            raise missing_table_error(self, name)
        if len(formats) > 1:
            raise AmbiguousTableError(
                f"Table name {name_text(name)} is ambiguous: it may be {' or '.join(map(redact, formats))}; "
                "open it by its path",
                table=name_text((self.name, *name)),
            )
        path, kind = formats.popitem()
        return TableLocation(
            catalog=self.name,
            name=name,
            location=path,
            format=kind or None,
            storage_options=self.storage.options,
            within=self.location,
        )

    def _leads_out(self, path: str) -> bool:
        """Return whether a directory is a link out of the warehouse.

        These links are not listed, but can be used by name.
        """
        if not _is_link(path):
            return False
        home, target = (canonical_path(os.path.realpath(local_path(each))) for each in (self.location, path))
        return not target.is_within(home)

    def _directories(self, namespace: Name) -> list[PhysicalPath]:
        """Return the directories of a namespace, or none if the namespace does not exist."""
        paths = [self.location]
        for part in namespace:
            folders = (part, part + _DATABASE) if _is_part(part) else ()
            candidates = [join(path, folder) for path in paths for folder in folders]
            paths = [path for path in candidates if self.storage.is_directory(path)]
        return paths

    def format_of(self, path: PhysicalPath) -> str | None:
        """Return the format of a directory's table.

        The result is `iceberg`, `delta`, or an empty text if both formats are present. None: the directory is not a
        table.
        """
        inside = self.storage.directories(path)
        is_delta = _DELTA in inside
        is_iceberg = _ICEBERG in inside and any(
            name == _HINT or _METADATA_FILE in name for name in self.storage.names(join(path, _ICEBERG))
        )
        if is_delta:
            return "" if is_iceberg else "delta"
        return "iceberg" if is_iceberg else None


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def _is_part(part: str) -> bool:
    """Return whether a text can be the name of a directory. False for `..` and other ways to leave a directory."""
    return part not in ("", ".", "..") and not {"/", "\\", "\0"} & set(part)


def _is_link(path: str) -> bool:
    return is_local(local_path(path)) and os.path.islink(local_path(path))


def _is_visible(folder: str) -> bool:
    """Return whether a directory may be a table or a namespace: neither hidden nor a partition."""
    return not folder.startswith((".", "_")) and "=" not in folder
