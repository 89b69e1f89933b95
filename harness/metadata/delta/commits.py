"""Commits: the content of a JSON file of the log, with its file actions as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, HarnessError, InvalidTableError
from harness.metadata.delta.action_lines import Body, ParsedActions, parse_actions
from harness.metadata.delta.actions import ADDS, DELETION_VECTOR, PARTITION_VALUES, REMOVES, AddCdc, Commit, CommitInfo
from harness.metadata.delta.log_files import LogFile
from harness.metadata.delta.paths import TableRoot, canonical_paths, path_keys
from harness.metadata.model.arrow_values import array_of, scalar_of, to_numpy
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.paths import PathMap
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase, read_ahead

FIELDS: dict[str, tuple[str, ...]] = {
    "path": ("path",),
    "partition_values": ("partitionValues",),
    "size": ("size",),
    "modification_time": ("modificationTime",),
    "deletion_time": ("deletionTimestamp",),
    "data_change": ("dataChange",),
    "extended_file_metadata": ("extendedFileMetadata",),
    "stats": ("stats",),
    "dv_storage_type": ("deletionVector", "storageType"),
    "dv_path_or_inline": ("deletionVector", "pathOrInlineDv"),
    "dv_offset": ("deletionVector", "offset"),
    "dv_size": ("deletionVector", "sizeInBytes"),
    "dv_cardinality": ("deletionVector", "cardinality"),
    "base_row_id": ("baseRowId",),
    "default_row_commit_version": ("defaultRowCommitVersion",),
}
"""The path of each column of `ADDS` and `REMOVES` in its action. The other columns are derived from these."""

REMOVE_IDENTITY = pa.schema([REMOVES.field(name) for name in ("path", "key")] + [*DELETION_VECTOR])
"""The columns of `REMOVES` that identify the removed logical file."""


@dataclass(frozen=True, slots=True)
class Locator:
    """A map from recorded paths to files.

    Attributes:
        root: The root of the table.
        path_map: The locations of the files of a copied table. Replay keys are mapped too, so that a file has the same
            key however its path is recorded.
    """

    root: TableRoot
    path_map: PathMap = field(default_factory=PathMap)

    def locate(self, recorded: pa.Array, *, file: str | None) -> pa.Array:
        """Return the replay keys of paths recorded in the log file `file`. With a path map, keys are physical paths."""
        try:
            keys = path_keys(recorded, self.root)
        except HarnessError as error:
            raise error.within(file=file) from None
        if not self.path_map.prefixes:
            return keys
        paths = canonical_paths(keys, self.root).to_pylist()
        return array_of([self.path_map.physical(path) for path in paths], pa.string())

    def physical(self, keys: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the physical paths of the files with these keys. Paths of local files are plain decoded paths."""
        pieces = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        if not self.path_map.prefixes:
            pieces = [canonical_paths(piece, self.root) for piece in pieces]
        return pa.chunked_array(pieces, pa.string())


@dataclass(frozen=True, slots=True)
class CommitReader:
    """A reader of whole commits of one table, for change data feeds, history, and commit times.

    Attributes:
        storage: The storage that reads the commits.
        locator: Maps recorded paths to files.
    """

    storage: Storage
    locator: Locator

    def read_commit(self, file: LogFile) -> Commit:
        """Read all actions of a commit file.

        Raises:
            CorruptFileError: The file is empty or cannot be parsed. Rules: delta L3, L24.
            InvalidTableError: The commit contradicts itself. Rule: delta L25.
            MissingFileError: The file is missing.
            LimitError: The commit has more actions than the limits of the storage allow.
        """
        return self._parse(file, read_log_file(file, self.storage))

    def read_commits(self, files: Sequence[LogFile]) -> Iterator[Commit]:
        """Yield all actions of commits, in the order of their files.

        Raises:
            HarnessError: As for `read_commit`.
        """
        for file, data in read_log_files(files, self.storage, self.locator):
            yield self._parse(file, data)

    def read_info(self, file: LogFile) -> CommitInfo | None:
        """Return the commitInfo of a commit file, or None if it has none. File actions are parsed but not kept.

        Raises:
            CorruptFileError, MissingFileError, LimitError: As for `read_commit`.
        """
        return self.read_actions(file, drain=_discard_file_actions).info

    def read_actions(self, file: LogFile, *, drain: Callable[[ParsedActions], None] | None = None) -> ParsedActions:
        """Return the actions of a commit file as recorded. For arguments and errors, see `parse_actions`."""
        data, limits = read_log_file(file, self.storage), self.storage.limits
        with contained(file=file.path):
            return parse_actions(data, file=file.path, drain=drain, limits=limits)

    def _parse(self, file: LogFile, data: bytes) -> Commit:
        limits = self.storage.limits
        with contained(file=file.path):
            return parse_commit(data, file=file.path, version=file.version, locator=self.locator, limits=limits)


def _discard_file_actions(parsed: ParsedActions) -> None:
    parsed.adds.clear()
    parsed.removes.clear()


def read_log_file(file: LogFile, storage: Storage) -> bytes:
    """Return the bytes of a commit or a compacted commit.

    Raises:
        CorruptFileError: The file is empty (rule delta L3).
    """
    data = storage.read_whole(file.path, file.size) if file.content is None else file.content
    if not data:
        message = "Cannot read the log: the commit is an empty file. Its writer may have been interrupted"
        raise CorruptFileError(message, cause="LogCorrupt", file=file.path, rule="delta L3")
    return data


def read_log_files(files: Sequence[LogFile], storage: Storage, locator: Locator) -> Iterator[tuple[LogFile, bytes]]:
    """Yield commits or compacted commits with their bytes. Files in an object store are read ahead.

    Raises:
        CorruptFileError: A file is empty (rule delta L3).
    """

    def read(file: LogFile) -> bytes:
        return read_log_file(file, storage)

    with (
        phase("reading commits", len(files), "commits") as advance,
        read_ahead(read, () if locator.root.is_local else files) as read_next,
    ):
        for file in files:
            yield file, read_next(file)
            advance(1)


def parse_commit(data: bytes, *, file: str, version: int, locator: Locator, limits: Limits = DEFAULT) -> Commit:
    """Parse the bytes of a commit. For errors, see `CommitReader.read_commit`."""
    parsed = parse_actions(data, file=file, limits=limits)
    adds = file_actions(parsed.adds, ADDS, locator=locator, file=file)
    removes = file_actions(parsed.removes, REMOVES, locator=locator, file=file)
    ranks = np.zeros(adds.num_rows + removes.num_rows, dtype=np.int64)
    refuse_repeats(pa.concat_arrays([ids_of(adds), ids_of(removes)]), ranks, adds.num_rows, files=[file])
    return Commit(
        version=version,
        file=file,
        protocol=parsed.protocol,
        metadata=parsed.only_metadata,
        info=parsed.info,
        adds=adds,
        removes=removes,
        cdc=_change_files(parsed, locator),
        transactions=tuple(parsed.transactions),
        domains=tuple(parsed.domains),
    )


def file_actions(bodies: Sequence[Body], schema: pa.Schema, *, locator: Locator, file: str | None) -> pa.Table:
    """Return parsed add or remove actions as a table.

    Args:
        bodies: The fields of each action.
        schema: `ADDS`, `REMOVES`, or some of their columns. The columns of the location and the deletion vector are
            required.
        locator: Maps recorded paths to files.
        file: The path of the log file, for errors.

    Raises:
        CorruptFileError: A field has the wrong type, or a deletion vector is incomplete.
        InvalidTableError: A path cannot be decoded. Rule: delta L38.
    """
    columns: dict[str, pa.Array] = {}
    for target in schema:
        place = FIELDS.get(target.name)
        if place is not None:
            columns[target.name] = _array(_field_values(bodies, place), target.type, ".".join(place), file)
    columns["key"] = locator.locate(columns["path"], file=file)
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    check_vectors(table, file=file)
    return table


def ids_of(files: pa.Table) -> pa.Array:
    """Return the id of each logical file in `ADDS` or `REMOVES`: its key and its deletion vector (delta R1)."""
    columns = (files.column(name) for name in ("key", "dv_storage_type", "dv_path_or_inline", "dv_offset"))
    keys, kind, path, offset = (c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in columns)
    if kind.null_count == len(kind):
        return keys
    at_sign, nothing, end = (scalar_of(text, pa.string()) for text in ("@", "", "\x00"))
    at = pc.binary_join_element_wise(at_sign, pc.cast(offset, pa.string()), nothing)
    vector = pc.binary_join_element_wise(kind, path, pc.fill_null(at, nothing), nothing)
    return pc.fill_null(pc.binary_join_element_wise(keys, vector, end), keys)


def refuse_repeats(ids: pa.Array, ranks: npt.NDArray[np.int64], adds: int, *, files: Sequence[str]) -> None:
    """Refuse commits that add a file twice, or both add and remove it.

    Args:
        ids: The ids of all adds, followed by the ids of all removes.
        ranks: For each id, the index of its commit in `files`.
        adds: The number of ids that are adds.
        files: The paths of the commits.

    Raises:
        InvalidTableError: A commit repeats a file (rule delta L25).
    """
    codes = to_numpy(pc.dictionary_encode(ids).indices).astype(np.int64)
    place = codes * len(files) + ranks
    order = np.argsort(place, kind="stable")  # adds come before removes of the same file
    repeated = (place[order][1:] == place[order][:-1]) & (order[:-1] < adds)
    if not repeated.any():
        return
    first, second = order[:-1][repeated][0], order[1:][repeated][0]
    problem = "adds the same file twice" if second < adds else "both adds and removes the same file"
    path = ids[int(first)].as_py().partition("\x00")[0]
    message = f"A commit {problem}: {path}. Which of the two actions applies is undefined"
    raise InvalidTableError(message, cause="LogCorrupt", file=files[int(ranks[first])], rule="delta L25")


def check_vectors(files: pa.Table, *, file: str | None) -> None:
    """Refuse deletion vectors that lack a field.

    Raises:
        CorruptFileError: A field is missing (rule delta D1).
    """
    is_absent = pc.is_null(files.column("dv_storage_type"))
    for name in ("dv_path_or_inline", "dv_size", "dv_cardinality", "dv_offset"):
        is_set = pc.is_valid(files.column(name))
        # The offset may be missing, but it must not be the only field that is set.
        is_wrong = pc.and_(is_absent, is_set) if name == "dv_offset" else pc.equal(is_absent, is_set)
        if pc.any(is_wrong).as_py():
            path = files.column("path").filter(is_wrong)[0].as_py()
            message = f"The deletion vector of {path} is incomplete: storageType or {FIELDS[name][-1]} is missing"
            raise CorruptFileError(message, cause="LogCorrupt", file=file, rule="delta D1")


def _field_values(bodies: Sequence[Body], place: tuple[str, ...]) -> list[object]:
    """Return the field at the path `place` in each of `bodies`.

    If a value on the path should be an object but is not, that value is returned instead. `_array` refuses it later,
    when it converts the whole column.
    """
    first, *rest = place
    values = [body.get(first) for body in bodies]
    for name in rest:
        if any(value is not None for value in values):
            values = [value.get(name) if isinstance(value, dict) else value for value in values]
    return values


def _array(values: list[Any], type_: pa.DataType, name: str, file: str | None) -> pa.Array:
    if type_ == PARTITION_VALUES:
        values = [None if value is None else list(value.items()) for value in values]
    elif not {type(value) for value in values} <= {_PYTHON[type_], NoneType}:
        value = next(value for value in values if value is not None and type(value) is not _PYTHON[type_])
        message = f"Cannot read the log: a field {name} is {value!r}, expected {type_}"
        raise CorruptFileError(message, cause="LogCorrupt", file=file, rule="delta L24")
    try:
        return array_of(values, type_)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
        message = f"Cannot read the log: a field {name} does not fit {type_}: {error}"
        raise CorruptFileError(message, cause="LogCorrupt", file=file, rule="delta L24") from error


_PYTHON = {pa.int64(): int, pa.string(): str, pa.bool_(): bool}


def _change_files(parsed: ParsedActions, locator: Locator) -> tuple[AddCdc, ...]:
    if not parsed.cdc:
        return ()
    paths = _array([body["path"] for body in parsed.cdc], pa.string(), "path", parsed.file)
    sizes = _array([body["size"] for body in parsed.cdc], pa.int64(), "size", parsed.file).to_pylist()
    physical = locator.physical(locator.locate(paths, file=parsed.file)).to_pylist()
    return tuple(
        AddCdc(path=body["path"], physical=path, partition_values=dict(body["partitionValues"]), size=size)
        for body, path, size in zip(parsed.cdc, physical, sizes, strict=True)
    )
