"""Live entries as their manifest has them, before anything is inherited, and their cache.

They depend on the manifest's bytes alone, not on the table's metadata, which may change while the manifest does not.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UnsupportedError
from harness.metadata.files.avro_container import decode_error
from harness.metadata.files.avro_values import FieldError, reason
from harness.metadata.iceberg.columns.entries import BOUNDS, COUNTS, MORE, Extent, statistic
from harness.metadata.iceberg.columns.walk import NOWHERE, Unsure, Varints, Walk
from harness.metadata.iceberg.manifests import FILE_FORMATS, Content, ManifestReader, Status, corrupt, encrypted
from harness.metadata.model.arrow_values import (
    Mask,
    Places,
    array_of,
    distinct,
    from_numpy,
    scalar_of,
    text_bytes,
    to_numpy,
    without_rows,
)
from harness.storage.decoded import Cache, Key, StoredTable
from harness.storage.paths import is_local
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion

_INLINE = 12
"""Views hold byte strings up to this length in themselves."""
_VIEW = np.dtype([("length", "<i4"), ("head", "<u8"), ("tail", "<u4")])
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
"""The first bytes of a little-endian word, by how many these are."""


def numbers(found: Walk, slot: str) -> tuple[Places, Mask]:
    """The numbers of a slot, 0 where there is none, and where there is one."""
    values = np.zeros(found.size, dtype=np.int64)
    starts = found.starts.get(slot)
    if starts is None:
        return values, np.zeros(found.size, dtype=np.bool_)
    there = starts != NOWHERE
    if there.all():
        return found.varints.numbers(starts)[0], there
    values[there] = found.varints.numbers(starts[there])[0]
    return values, there


def byte_strings(found: Walk, slot: str, entries: Places) -> pa.Array:
    """The bytes of a slot of some entries, as a binary array; null where it has none."""
    starts, ends = found.starts.get(slot), found.ends.get(slot)
    if starts is None or ends is None:
        return pa.nulls(len(entries), pa.binary())
    return _slices(found.varints, starts[entries], ends[entries])


def counts(found: Walk, slot: str, keys: Iterable[int], entries: Places) -> Mapping[int, tuple[Places, Mask]]:
    """Per wanted key of a map of counts: its values in some entries, and where there is exactly one (iceberg 2.8)."""
    wanted = tuple(keys)
    values = {key: np.zeros(len(entries), dtype=np.int64) for key in wanted}
    times = {key: np.zeros(len(entries), dtype=np.int64) for key in wanted}
    starts = found.starts.get(slot)
    if starts is not None and wanted:
        starts = starts[entries]
        there = np.flatnonzero(starts != NOWHERE)
        counts = found.counts[slot][entries[there]]
        owners = np.repeat(np.arange(len(there)), counts)
        ordinal = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        later = ordinal > 0
        items = starts[there][owners]
        # The numbers of a map follow each other: the item's key is behind the value of the item before.
        items[later] = found.varints.skip_many(items[later], 2 * ordinal[later])
        present, after = found.varints.numbers(items)
        for key in wanted:
            hit = present == key
            owner = there[owners[hit]]
            values[key][owner] = found.varints.numbers(after[hit])[0]
            np.add.at(times[key], owner, 1)
    return {key: (values[key], times[key] == 1) for key in wanted}


def lists(found: Walk, slot: str, entries: Places) -> pa.Array:
    """The lists of numbers of a slot of some entries; null where it has none, or an empty one."""
    if slot not in found.starts:
        return pa.nulls(len(entries), pa.list_(pa.int64()))
    starts = found.starts[slot][entries]
    there = starts != NOWHERE
    lengths = np.where(there, found.counts[slot][entries], 0)
    owners = np.repeat(np.arange(len(entries)), lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    ordinal = np.arange(len(owners)) - offsets[owners]
    later = ordinal > 0
    places = starts[owners]
    places[later] = found.varints.skip_many(places[later], ordinal[later])
    items = from_numpy(found.varints.numbers(places)[0])
    validity = pa.py_buffer(np.packbits(there, bitorder="little"))
    parts = [validity, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(entries), parts, children=[items])


def bounds(found: Walk, slot: str, key: int, entries: Places) -> pa.Array:
    """The value of one key of a map of bounds of some entries; null where the key is missing or repeated."""
    if (slot, key) not in found.pairs:
        return pa.nulls(len(entries), pa.binary())
    places, times = (noted[entries] for noted in found.pairs[slot, key])
    there = np.flatnonzero(times == 1)
    starts = np.full(len(entries), NOWHERE, dtype=np.int64)
    ends = starts.copy()
    length, begin = found.varints.lengths(places[there])
    starts[there], ends[there] = begin, begin + length
    return _slices(found.varints, starts, ends)


def _slices(varints: Varints, starts: Places, ends: Places) -> pa.Array:
    """Slices of the buffer as a binary array, null where `starts` is `NOWHERE`. Arrow copies the bytes, from views."""
    there = starts != NOWHERE
    lengths = ends - starts if there.all() else np.where(there, ends - starts, 0)
    shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
    if longest >= 1 << 31 or int(lengths.sum()) >= 1 << 31:
        raise Unsure
    views = np.zeros(len(starts), dtype=_VIEW)
    views["length"] = lengths
    head = _overlapping(varints.data, "head")[starts]
    views["head"] = head if shortest >= 8 else head & _FIRST.take(np.minimum(lengths, 8))
    if shortest <= _INLINE and longest > 8:
        tail = _overlapping(varints.data, "tail")[starts + 8]
        views["tail"] = tail & _FIRST.take(np.clip(lengths - 8, 0, 4)).astype(np.uint32)
    if longest > _INLINE:
        long = slice(None) if shortest > _INLINE else np.flatnonzero(lengths > _INLINE)
        # Four bytes, the number of the buffer, which is 0, and the place in it.
        views["head"][long] &= _FIRST[4]
        views["tail"][long] = starts[long]
    validity = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    array = pa.Array.from_buffers(
        pa.binary_view(), len(starts), [validity, pa.py_buffer(views), pa.py_buffer(varints.data)]
    )
    return array.cast(pa.binary())


def _overlapping(data: npt.NDArray[np.uint8], part: str) -> npt.NDArray[Any]:
    """The word that begins at each byte, of the type of a part of a view."""
    type_ = _VIEW[part]
    return np.ndarray((len(data) - type_.itemsize + 1,), type_, data, strides=(1,))


TUPLE = pa.dictionary(pa.int32(), pa.binary())
FACTS = pa.schema(
    [
        pa.field("status", pa.int8(), nullable=False),
        pa.field("sequence_number", pa.int64()),  # null: inherited
        pa.field("format", pa.string(), nullable=False),  # lower-case
        pa.field("partition", TUPLE),  # as encoded; null: the entry has none
        pa.field("record_count", pa.int64()),  # null: unknown, or negative
        pa.field("size", pa.int64()),
        pa.field("first_row_id", pa.int64()),  # null: assigned by the manifest, or none
    ]
)
"""Columns of `Raw.table`, before encoded bounds."""

Counts: TypeAlias = Callable[[str, Sequence[int], Places], Mapping[int, tuple[Places, Mask]]]
"""Takes one of `COUNTS`, field ids and places. Gives each field's values there, and where it has exactly one."""
Paths: TypeAlias = Callable[[], pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Raw:
    """Entries of one or more manifests, in order.

    table: `FACTS`, the encoded bounds or maps of `extent`, and `MORE`. paths, counts: most plans need them of few
        files only.
    """

    table: pa.Table
    extent: Extent
    paths: Paths
    counts: Counts

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def slice(self, start: int, size: int) -> Raw:
        """The entries of one manifest."""
        return Raw(
            self.table.slice(start, size),
            self.extent,
            lambda: self.paths().slice(start, size),
            lambda name, keys, places: self.counts(name, keys, places + start),
        )


def _schema_of(extent: Extent) -> pa.Schema:
    """The columns of `Raw.table`."""
    return pa.schema([*FACTS, *extent.encoded, *(MORE if extent.has_more else ())])


def raw_of(found: Walk, places: Places, extent: Extent, reader: ManifestReader) -> Raw:
    """Some entries of a walk. reader: of the manifest, or of one that is alike.

    Raises CorruptFileError, EncryptedTableError, UnsupportedError: an entry breaks a rule of the format.
    """
    status, _ = numbers(found, "status")
    paths = _texts(found, "file_path", places)
    if paths.null_count:
        raise corrupt("file_path", "an entry has no file path", "2.7")
    content, stated = _taken(numbers(found, "content"), places)  # 0 where none is stated
    _check(found, places, content, stated, paths, reader)
    record_count, counted = _taken(numbers(found, "record_count"), places)
    columns = {
        "status": from_numpy(status[places].astype(np.int8)),
        "sequence_number": _optional(found, "sequence_number", places),
        "format": _formats(found, places, content, paths),
        "partition": byte_strings(found, "partition", places).dictionary_encode(),
        "record_count": from_numpy(record_count, missing=~(counted & (record_count >= 0))),
        "size": _optional(found, "file_size_in_bytes", places),
        "first_row_id": _optional(found, "first_row_id", places),
        **{statistic(name, key): bounds(found, name, key, places) for name in BOUNDS for key in extent.fields},
        **{name: byte_strings(found, name, places) for name in extent.maps},
        **(_more(found, places) if extent.has_more else {}),
    }
    path = pa.chunked_array([paths])
    schema = _schema_of(extent)
    return Raw(
        pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema),
        extent,
        lambda: path,
        lambda name, keys, some: counts(found, name, keys, places[some]),
    )


def _more(found: Walk, places: Places) -> dict[str, pa.Array]:
    """The columns of `MORE`."""
    columns = {}
    for field in MORE:
        if pa.types.is_list(field.type):
            columns[field.name] = lists(found, field.name, places)
        elif pa.types.is_string(field.type):
            columns[field.name] = _texts(found, field.name, places)
        else:
            values, stated = _taken(numbers(found, field.name), places)
            fits = values.astype(field.type.to_pandas_dtype()) == values
            columns[field.name] = from_numpy(values, missing=~(stated & fits)).cast(field.type)
    columns["content"] = pc.fill_null(columns["content"], scalar_of(int(Content.DATA), pa.int32()))
    return columns


def nothing_of(extent: Extent) -> Raw:
    """No entries."""
    table = without_rows(_schema_of(extent))
    return Raw(table, extent, lambda: pa.chunked_array([], pa.string()), lambda name, keys, places: {})


def joined(raws: Sequence[Raw]) -> Raw:
    """The entries of all of them, one after the other; all are of the same extent."""
    if len(raws) == 1:
        return raws[0]
    table = pa.concat_tables([raw.table for raw in raws]).unify_dictionaries().combine_chunks()
    starts = np.cumsum([0, *map(len, raws)])
    paths = [raw.paths for raw in raws]

    def found_counts(name: str, keys: Sequence[int], places: Places) -> Mapping[int, tuple[Places, Mask]]:
        owner = np.searchsorted(starts, places, side="right") - 1
        parts = [raws[i].counts(name, keys, places[owner == i] - starts[i]) for i in distinct(owner).tolist()]
        return {
            key: (np.concatenate([part[key][0] for part in parts]), np.concatenate([part[key][1] for part in parts]))
            for key in keys
        }

    return Raw(
        table,
        raws[0].extent,
        lambda: pa.chunked_array([chunk for each in paths for chunk in each().chunks], pa.string()),
        found_counts,
    )


def _counts_in(encoded: pa.Array, keys: Sequence[int]) -> Mapping[int, tuple[Places, Mask]]:
    """The counts of some fields, from encoded maps without how many items they have; Unsure if damaged."""
    data, offsets = text_bytes(encoded)
    varints = Varints.of([data.tobytes()])
    # A number ends with a byte that says so, and an item is two numbers.
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(varints.data[: varints.size] < 0x80)])
    items = (before[offsets[1:]] - before[offsets[:-1]]) // 2
    starts = np.where(to_numpy(encoded.is_valid()), offsets[:-1], NOWHERE)
    maps = Walk(varints, len(encoded), {"": starts}, {}, {"": items})
    return counts(maps, "", keys, np.arange(len(encoded)))


def _check(found: Walk, places: Places, content: Places, stated: Mask, paths: pa.Array, reader: ManifestReader) -> None:
    """Raise an error for a file of another kind than the manifest's (iceberg 2.20), or an encrypted one (2.19)."""
    is_deletes = reader.manifest.is_deletes

    def first(wrong: Mask) -> tuple[Any, Any]:
        place = int(np.argmax(wrong))
        return paths[place].as_py(), int(content[place]) if stated[place] else None

    wrong = (content < 0) | (content > max(Content))
    if wrong.any():
        path, number = first(wrong)
        raise corrupt("content", f"{path} has content {number}, expected 0, 1 or 2", "2.7")
    if reader.is_disputed and not stated.all():
        path, _ = first(~stated)
        message = f"it says that it holds deletes, the list says data, and the entry of {path} says neither"
        raise corrupt("content", message, "2.4")
    wrong = (content == Content.DATA) == is_deletes  # where none is stated it is 0
    if wrong.any():
        path, number = first(wrong)
        kind = "delete" if is_deletes else "data"
        raise corrupt("content", f"{path} has content {number} in a {kind} manifest", "2.20")
    starts, ends = found.starts.get("key_metadata"), found.ends.get("key_metadata")
    if starts is not None and ends is not None and (wrong := ends[places] > starts[places]).any():
        raise encrypted(first(wrong)[0])


def live_entries(found: Walk) -> Places:
    """The entries that are not deleted. Raises CorruptFileError for a status that there is not."""
    status, stated = numbers(found, "status")
    wrong = ~stated | (status < 0) | (status > max(Status))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise corrupt("status", f"got {int(status[place]) if stated[place] else None}, expected 0, 1 or 2", "2.6")
    return np.flatnonzero(status != Status.DELETED)


def _taken(values: tuple[Places, Mask], places: Places) -> tuple[Places, Mask]:
    return values[0][places], values[1][places]


def _optional(found: Walk, slot: str, places: Places) -> pa.Array:
    """The numbers of a slot of some entries; null where it has none."""
    values, stated = _taken(numbers(found, slot), places)
    return from_numpy(values, missing=~stated)


def _texts(found: Walk, slot: str, places: Places) -> pa.Array:
    """The texts of a slot of some entries; null where it has none. Raises CorruptFileError: one is no text."""
    try:
        return byte_strings(found, slot, places).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise decode_error(FieldError(("data_file", slot), "text is not UTF-8")) from error


def _formats(found: Walk, places: Places, content: Places, paths: pa.Array) -> pa.Array:
    encoded = byte_strings(found, "file_format", places).dictionary_encode()
    if encoded.null_count:
        path = paths[int(np.argmax(to_numpy(encoded.is_null())))].as_py()
        raise corrupt("file_format", f"{path} has no file format", "2.7")
    try:
        lower = [text.decode().lower() for text in encoded.dictionary.to_pylist()]
    except UnicodeDecodeError as error:
        raise decode_error(FieldError(("data_file", "file_format"), reason(error))) from error
    formats = pc.take(array_of(lower, pa.string()), encoded.indices)
    allowed = np.array([text in FILE_FORMATS for text in lower], dtype=np.bool_)[to_numpy(encoded.indices)]
    if "puffin" in lower:
        allowed &= (content == Content.POSITION_DELETES) | ~to_numpy(
            pc.equal(formats, scalar_of("puffin", pa.string()))
        )
    if not allowed.all():
        place = int(np.argmin(allowed))
        kind = Content(content[place]).name.lower().replace("_", " ")
        raise UnsupportedError(
            f"Cannot read {paths[place]}: format {formats[place].as_py()!r} is not supported for {kind}",
            cause="UnsupportedFormat",
            field="file_format",
            rule="iceberg 2.20",
        )
    return formats


# The cache has an entry with the manifest's header and what all plans need; encoded bounds of each column have entries
# of their own, made once a filter asks for them.


_HEADER = b"header"
FEWEST_KEPT = 200
_NOTHING = pa.table({})
_COUNTS = {name: pa.schema([pa.field(name, pa.binary())]) for name in COUNTS}


@dataclass(slots=True)
class KeptManifests:
    """The cache, and the version of each manifest that storage has now."""

    cache: Cache
    version: Callable[[str], tuple[str, FileVersion | None]]
    """Takes a recorded path. Gives the physical one and its version, whose size is 0 where nobody asked for it."""
    _others: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def note_size(self, recorded: str, size: int) -> None:
        """Notes the bytes read of a manifest: if its version has another size, nothing is kept of it."""
        _, version = self.version(recorded)
        if version is not None and version.size not in (0, size):
            self._others.add(recorded)

    def get(self, recorded: str, fields: Sequence[int]) -> tuple[bytes, Raw] | None:
        """The header of a manifest and its live entries with the bounds of `fields`; None: not all of it is there."""
        key = self._key(recorded)
        entry = None if key is None else self.cache.get(key)
        facts = None if key is None else self.cache.columns(key, FACTS)
        if key is None or entry is None or facts is None:
            return None
        for field in fields:
            bounds = self.cache.columns(_bounds_key(key, field), pa.schema(Extent((field,)).encoded))
            if bounds is None or len(bounds) != len(facts):
                return None
            for name in bounds.schema.names:
                facts = facts.append_column(bounds.schema.field(name), bounds.column(name))
        header = entry.metadata.get(_HEADER)
        return None if header is None else (header, _raw(entry, facts, Extent(tuple(fields))))

    def put(self, recorded: str, header: bytes, raw: Raw, counts: Mapping[str, pa.Array]) -> None:
        """Keeps the live entries of one manifest. counts: the encoded maps.

        A small one is decoded in less time than it takes to keep it, but a store is asked for it once less.
        """
        physical, _ = self.version(recorded)
        key = None if len(raw) < FEWEST_KEPT and is_local(physical) else self._key(recorded)
        if key is None:
            return
        facts = raw.table.select(FACTS.names)
        place = facts.schema.get_field_index("partition")
        tuples = facts.column(place).cast(pa.binary()).combine_chunks().dictionary_encode()  # without those of others
        facts = facts.set_column(place, facts.schema.field(place), tuples)
        columns = {"path": raw.paths(), **counts}
        for name, values in columns.items():
            facts = facts.append_column(name, values)
        self.cache.put(key, facts, {_HEADER: header})
        for field in raw.extent.fields:
            self.cache.put(
                _bounds_key(key, field), raw.table.select([column.name for column in Extent((field,)).encoded])
            )

    def has_distinct_paths(self, manifests: Sequence[str]) -> bool:
        """True if no data file was found live twice in these manifests, recorded paths in order."""
        key = self._key_of_all(manifests)
        return key is not None and self.cache.get(key) is not None

    def note_distinct_paths(self, manifests: Sequence[str]) -> None:
        """Notes that no data file is live twice in these manifests."""
        key = self._key_of_all(manifests)
        if key is not None:
            self.cache.put(key, _NOTHING)

    def _key_of_all(self, manifests: Sequence[str]) -> Key | None:
        digest = hashlib.blake2b()
        for manifest in manifests:
            key = self._key(manifest)
            if key is None:
                return None
            digest.update(f"{key}".encode(errors="surrogatepass"))
        return Key("distinct paths", "", len(manifests), digest.hexdigest())

    def _key(self, recorded: str) -> Key | None:
        physical, version = self.version(recorded)
        if version is None or recorded in self._others:
            return None
        return Key("manifest", physical, version.size, version.token)


def _bounds_key(key: Key, field: int) -> Key:
    return Key(f"manifest bounds {field}", key.path, key.size, key.token)


def _raw(entry: StoredTable, facts: pa.Table, extent: Extent) -> Raw:
    def paths() -> pa.ChunkedArray:
        return entry.columns(pa.schema([pa.field("path", pa.string(), nullable=False)])).column(0)

    def counts(name: str, keys: Sequence[int], places: Places) -> Mapping[int, tuple[Places, Mask]]:
        return _counts_in(entry.columns(_COUNTS[name]).column(0).take(from_numpy(places)).combine_chunks(), keys)

    return Raw(facts, extent, paths, counts)
