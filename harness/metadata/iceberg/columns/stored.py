"""Live entries as their manifest stores them, before inheritance, and the cache of these entries.

Stored entries depend only on the bytes of the manifest. The table metadata may change while the manifest does not, so
stored entries can be cached across versions of the table.
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
from harness.metadata.files.avro_values import FieldError, error_reason
from harness.metadata.iceberg.columns.entries import BOUNDS, COUNTS, MORE, Extent, statistic
from harness.metadata.iceberg.columns.lockstep import NOWHERE, FieldOffsets, UnusualEncoding, Varints
from harness.metadata.iceberg.manifests import FILE_FORMATS, Content, ManifestReader, Status, corrupt, encrypted
from harness.metadata.model.arrow_values import (
    Indices,
    Mask,
    array_of,
    distinct_values,
    empty_table,
    from_numpy,
    scalar_of,
    text_bytes,
    to_numpy,
)
from harness.storage.decoded import Cache, Key, StoredTable
from harness.storage.paths import is_local
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion

_INLINE = 12
"""Arrow's binary views hold byte strings of up to this length inline."""
_VIEW = np.dtype([("length", "<i4"), ("head", "<u8"), ("tail", "<u4")])
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
"""Masks that keep the first bytes of a little-endian word; the index is the number of bytes to keep."""


def numbers(offsets: FieldOffsets, slot: str) -> tuple[Indices, Mask]:
    """Return the numbers in a slot, and a mask of the entries that have the slot. Missing numbers are 0."""
    values = np.zeros(offsets.size, dtype=np.int64)
    starts = offsets.starts.get(slot)
    if starts is None:
        return values, np.zeros(offsets.size, dtype=np.bool_)
    has_value = starts != NOWHERE
    if has_value.all():
        return offsets.varints.numbers(starts)[0], has_value
    values[has_value] = offsets.varints.numbers(starts[has_value])[0]
    return values, has_value


def byte_strings(offsets: FieldOffsets, slot: str, entries: Indices) -> pa.Array:
    """Return the bytes in a slot of the given entries as a binary array; null for entries without the slot."""
    starts, ends = offsets.starts.get(slot), offsets.ends.get(slot)
    if starts is None or ends is None:
        return pa.nulls(len(entries), pa.binary())
    return _slices(offsets.varints, starts[entries], ends[entries])


def counts(
    offsets: FieldOffsets, slot: str, keys: Iterable[int], entries: Indices
) -> Mapping[int, tuple[Indices, Mask]]:
    """Return the values of map keys in the given entries, and masks of the entries that have a key exactly once.

    Args:
        offsets: The offsets of all entries.
        slot: The name of a map of counts.
        keys: The field ids to look up.
        entries: The numbers of the entries.

    Spec: Iceberg, "Manifests" (rule iceberg 2.8).
    """
    requested = tuple(keys)
    values = {key: np.zeros(len(entries), dtype=np.int64) for key in requested}
    times = {key: np.zeros(len(entries), dtype=np.int64) for key in requested}
    starts = offsets.starts.get(slot)
    if starts is not None and requested:
        starts = starts[entries]
        has_value = np.flatnonzero(starts != NOWHERE)
        counts = offsets.counts[slot][entries[has_value]]
        owners = np.repeat(np.arange(len(has_value)), counts)
        ordinal = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        later = ordinal > 0
        items = starts[has_value][owners]
        # The numbers of a map follow each other: the key of an item comes right after the value of the item before.
        items[later] = offsets.varints.skip_many(items[later], 2 * ordinal[later])
        present, after = offsets.varints.numbers(items)
        for key in requested:
            hit = present == key
            owner = has_value[owners[hit]]
            values[key][owner] = offsets.varints.numbers(after[hit])[0]
            np.add.at(times[key], owner, 1)
    return {key: (values[key], times[key] == 1) for key in requested}


def lists(offsets: FieldOffsets, slot: str, entries: Indices) -> pa.Array:
    """Return the list of numbers in a slot for each of the given entries; null for a missing or empty list."""
    if slot not in offsets.starts:
        return pa.nulls(len(entries), pa.list_(pa.int64()))
    starts = offsets.starts[slot][entries]
    has_value = starts != NOWHERE
    lengths = np.where(has_value, offsets.counts[slot][entries], 0)
    owners = np.repeat(np.arange(len(entries)), lengths)
    list_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    ordinal = np.arange(len(owners)) - list_offsets[owners]
    later = ordinal > 0
    places = starts[owners]
    places[later] = offsets.varints.skip_many(places[later], ordinal[later])
    items = from_numpy(offsets.varints.numbers(places)[0])
    validity = pa.py_buffer(np.packbits(has_value, bitorder="little"))
    parts = [validity, pa.py_buffer(list_offsets.astype(np.int32))]
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(entries), parts, children=[items])


def bounds(offsets: FieldOffsets, slot: str, key: int, entries: Indices) -> pa.Array:
    """Return the value of one key in a map of bounds of the given entries; null if it is missing or repeated."""
    if (slot, key) not in offsets.pairs:
        return pa.nulls(len(entries), pa.binary())
    places, times = (array[entries] for array in offsets.pairs[slot, key])
    has_value = np.flatnonzero(times == 1)
    starts = np.full(len(entries), NOWHERE, dtype=np.int64)
    ends = starts.copy()
    length, value_starts = offsets.varints.lengths(places[has_value])
    starts[has_value], ends[has_value] = value_starts, value_starts + length
    return _slices(offsets.varints, starts, ends)


def _slices(varints: Varints, starts: Indices, ends: Indices) -> pa.Array:
    """Return slices of the buffer as a binary array; null for entries whose start is `NOWHERE`.

    The array is first built as views of the buffer, so that Arrow copies the bytes.
    """
    has_value = starts != NOWHERE
    lengths = ends - starts if has_value.all() else np.where(has_value, ends - starts, 0)
    shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
    if longest >= 1 << 31 or int(lengths.sum()) >= 1 << 31:
        raise UnusualEncoding
    views = np.zeros(len(starts), dtype=_VIEW)
    views["length"] = lengths
    head = _words_at_each_byte(varints.data, "head")[starts]
    views["head"] = head if shortest >= 8 else head & _FIRST.take(np.minimum(lengths, 8))
    if shortest <= _INLINE and longest > 8:
        tail = _words_at_each_byte(varints.data, "tail")[starts + 8]
        views["tail"] = tail & _FIRST.take(np.clip(lengths - 8, 0, 4)).astype(np.uint32)
    if longest > _INLINE:
        long = slice(None) if shortest > _INLINE else np.flatnonzero(lengths > _INLINE)
        # The layout of a long view: four bytes of the value, the number of the buffer (always 0), and the offset in the
        # buffer.
        views["head"][long] &= _FIRST[4]
        views["tail"][long] = starts[long]
    validity = None if has_value.all() else pa.py_buffer(np.packbits(has_value, bitorder="little"))
    array = pa.Array.from_buffers(
        pa.binary_view(), len(starts), [validity, pa.py_buffer(views), pa.py_buffer(varints.data)]
    )
    return array.cast(pa.binary())


def _words_at_each_byte(data: npt.NDArray[np.uint8], part: str) -> npt.NDArray[Any]:
    """Return an array of the machine words that begin at each byte of `data`, without copying.

    `part` names the part of a view (`head` or `tail`) whose type the words have.
    """
    type_ = _VIEW[part]
    return np.ndarray((len(data) - type_.itemsize + 1,), type_, data, strides=(1,))


TUPLE = pa.dictionary(pa.int32(), pa.binary())
FACTS = pa.schema(
    [
        pa.field("status", pa.int8(), nullable=False),
        pa.field("sequence_number", pa.int64()),  # null: inherited from the manifest list
        pa.field("format", pa.string(), nullable=False),  # lower-case
        pa.field("partition", TUPLE),  # encoded; null: the entry has no partition tuple
        pa.field("record_count", pa.int64()),  # null: unknown, or negative
        pa.field("size", pa.int64()),
        pa.field("first_row_id", pa.int64()),  # null: assigned by the manifest list, or the file has no row ids
    ]
)
"""The columns of `StoredEntries.table` that come before encoded bounds."""

Counts: TypeAlias = Callable[[str, Sequence[int], Indices], Mapping[int, tuple[Indices, Mask]]]
"""Takes one of `COUNTS`, field ids, and row numbers. Returns the values by field id, and a mask of the rows that have
exactly one value."""
Paths: TypeAlias = Callable[[], pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entries of one or more manifests, in order.

    Attributes:
        table: `FACTS`, the encoded bounds or maps of `extent`, and `MORE` if `extent` has more.
        extent: Which entries and fields were read.
        paths: Returns the recorded paths of the files. Most plans need the paths and counts of few files only, so both
            are functions.
        counts: Returns counts of fields, see `Counts`.
    """

    table: pa.Table
    extent: Extent
    paths: Paths
    counts: Counts

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def slice(self, start: int, size: int) -> StoredEntries:
        """Return `size` entries from row `start` on, which are the entries of one manifest."""
        return StoredEntries(
            self.table.slice(start, size),
            self.extent,
            lambda: self.paths().slice(start, size),
            lambda name, keys, places: self.counts(name, keys, places + start),
        )


def _schema_of(extent: Extent) -> pa.Schema:
    """Return the columns of `StoredEntries.table`."""
    return pa.schema([*FACTS, *extent.encoded, *(MORE if extent.has_more else ())])


def stored_entries(offsets: FieldOffsets, places: Indices, extent: Extent, reader: ManifestReader) -> StoredEntries:
    """Return the entries with the given numbers.

    Args:
        offsets: The offsets of fields in all entries.
        places: The numbers of the entries to return.
        extent: Which fields to decode.
        reader: The manifest of the entries, or one of several manifests with the same layout.

    Raises:
        CorruptFileError: An entry breaks a rule of the format.
        EncryptedTableError: A file is encrypted (iceberg 2.19).
        UnsupportedError: The format of a file is unknown (iceberg 2.20).
    """
    status, _ = numbers(offsets, "status")
    paths = _texts(offsets, "file_path", places)
    if paths.null_count:
        raise corrupt("file_path", "an entry has no file path", "2.7")
    content, has_content = _take(numbers(offsets, "content"), places)  # 0 if no content is stored
    _check(offsets, places, content, has_content, paths, reader)
    record_count, has_count = _take(numbers(offsets, "record_count"), places)
    columns = {
        "status": from_numpy(status[places].astype(np.int8)),
        "sequence_number": _optional(offsets, "sequence_number", places),
        "format": _formats(offsets, places, content, paths),
        "partition": byte_strings(offsets, "partition", places).dictionary_encode(),
        "record_count": from_numpy(record_count, missing=~(has_count & (record_count >= 0))),
        "size": _optional(offsets, "file_size_in_bytes", places),
        "first_row_id": _optional(offsets, "first_row_id", places),
        **{statistic(name, key): bounds(offsets, name, key, places) for name in BOUNDS for key in extent.fields},
        **{name: byte_strings(offsets, name, places) for name in extent.maps},
        **(_more(offsets, places) if extent.has_more else {}),
    }
    path = pa.chunked_array([paths])
    schema = _schema_of(extent)
    return StoredEntries(
        pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema),
        extent,
        lambda: path,
        lambda name, keys, rows: counts(offsets, name, keys, places[rows]),
    )


def _more(offsets: FieldOffsets, places: Indices) -> dict[str, pa.Array]:
    """Return the columns of `MORE`."""
    columns = {}
    for field in MORE:
        if pa.types.is_list(field.type):
            columns[field.name] = lists(offsets, field.name, places)
        elif pa.types.is_string(field.type):
            columns[field.name] = _texts(offsets, field.name, places)
        else:
            values, has_value = _take(numbers(offsets, field.name), places)
            fits = values.astype(field.type.to_pandas_dtype()) == values
            columns[field.name] = from_numpy(values, missing=~(has_value & fits)).cast(field.type)
    columns["content"] = pc.fill_null(columns["content"], scalar_of(int(Content.DATA), pa.int32()))
    return columns


def no_entries(extent: Extent) -> StoredEntries:
    """Return an empty table of entries."""
    table = empty_table(_schema_of(extent))
    return StoredEntries(table, extent, lambda: pa.chunked_array([], pa.string()), lambda name, keys, places: {})


def concat_entries(raws: Sequence[StoredEntries]) -> StoredEntries:
    """Return the entries of all parts in order. All parts have the same extent."""
    if len(raws) == 1:
        return raws[0]
    table = pa.concat_tables([raw.table for raw in raws]).unify_dictionaries().combine_chunks()
    starts = np.cumsum([0, *map(len, raws)])
    paths = [raw.paths for raw in raws]

    def found_counts(name: str, keys: Sequence[int], places: Indices) -> Mapping[int, tuple[Indices, Mask]]:
        owner = np.searchsorted(starts, places, side="right") - 1
        parts = [raws[i].counts(name, keys, places[owner == i] - starts[i]) for i in distinct_values(owner).tolist()]
        return {
            key: (np.concatenate([part[key][0] for part in parts]), np.concatenate([part[key][1] for part in parts]))
            for key in keys
        }

    return StoredEntries(
        table,
        raws[0].extent,
        lambda: pa.chunked_array([chunk for each in paths for chunk in each().chunks], pa.string()),
        found_counts,
    )


def _counts_in(encoded: pa.Array, keys: Sequence[int]) -> Mapping[int, tuple[Indices, Mask]]:
    """Return counts of fields from maps in encoded form. The number of items in each map is computed first.

    Raises UnusualEncoding if a map is damaged.
    """
    data, offsets = text_bytes(encoded)
    varints = Varints.index([data.tobytes()])
    # The last byte of a number is below 0x80, and an item of the map is two numbers.
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(varints.data[: varints.size] < 0x80)])
    items = (before[offsets[1:]] - before[offsets[:-1]]) // 2
    starts = np.where(to_numpy(encoded.is_valid()), offsets[:-1], NOWHERE)
    maps = FieldOffsets(varints, len(encoded), {"": starts}, {}, {"": items})
    return counts(maps, "", keys, np.arange(len(encoded)))


def _check(
    offsets: FieldOffsets, places: Indices, content: Indices, has_content: Mask, paths: pa.Array, reader: ManifestReader
) -> None:
    """Raise an error if a file is not of its manifest's kind (iceberg 2.20) or is encrypted (iceberg 2.19)."""
    is_deletes = reader.manifest.is_deletes

    def first(is_wrong: Mask) -> tuple[Any, Any]:
        place = int(np.argmax(is_wrong))
        return paths[place].as_py(), int(content[place]) if has_content[place] else None

    is_wrong = (content < 0) | (content > max(Content))
    if is_wrong.any():
        path, number = first(is_wrong)
        raise corrupt("content", f"{path} has content {number}, expected 0, 1 or 2", "2.7")
    if reader.is_disputed and not has_content.all():
        path, _ = first(~has_content)
        message = f"its header says deletes, the manifest list says data, and the entry of {path} has no content"
        raise corrupt("content", message, "2.4")
    is_wrong = (content == Content.DATA) == is_deletes  # the content is 0 if none is stored
    if is_wrong.any():
        path, number = first(is_wrong)
        kind = "delete" if is_deletes else "data"
        raise corrupt("content", f"{path} has content {number} in a {kind} manifest", "2.20")
    starts, ends = offsets.starts.get("key_metadata"), offsets.ends.get("key_metadata")
    if starts is not None and ends is not None and (is_wrong := ends[places] > starts[places]).any():
        raise encrypted(first(is_wrong)[0])


def live_entries(offsets: FieldOffsets) -> Indices:
    """Return the numbers of the entries that are not deleted.

    Raises CorruptFileError if a status is missing or unknown.
    """
    status, has_status = numbers(offsets, "status")
    is_wrong = ~has_status | (status < 0) | (status > max(Status))
    if is_wrong.any():
        place = int(np.argmax(is_wrong))
        raise corrupt("status", f"got {int(status[place]) if has_status[place] else None}, expected 0, 1 or 2", "2.6")
    return np.flatnonzero(status != Status.DELETED)


def _take(values: tuple[Indices, Mask], places: Indices) -> tuple[Indices, Mask]:
    return values[0][places], values[1][places]


def _optional(offsets: FieldOffsets, slot: str, places: Indices) -> pa.Array:
    """Return the numbers in a slot of the given entries; null for entries without the slot."""
    values, has_value = _take(numbers(offsets, slot), places)
    return from_numpy(values, missing=~has_value)


def _texts(offsets: FieldOffsets, slot: str, places: Indices) -> pa.Array:
    """Return the texts in a slot of the given entries; null if missing.

    Raises CorruptFileError if a text is not UTF-8.
    """
    try:
        return byte_strings(offsets, slot, places).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise decode_error(FieldError(("data_file", slot), "text is not UTF-8")) from error


def _formats(offsets: FieldOffsets, places: Indices, content: Indices, paths: pa.Array) -> pa.Array:
    encoded = byte_strings(offsets, "file_format", places).dictionary_encode()
    if encoded.null_count:
        path = paths[int(np.argmax(to_numpy(encoded.is_null())))].as_py()
        raise corrupt("file_format", f"{path} has no file format", "2.7")
    try:
        lower = [text.decode().lower() for text in encoded.dictionary.to_pylist()]
    except UnicodeDecodeError as error:
        raise decode_error(FieldError(("data_file", "file_format"), error_reason(error))) from error
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


# A manifest has one cache entry for its header and the columns that all plans need. Encoded bounds of a column have a
# cache entry of their own, created when a filter first needs them.


_HEADER = b"header"
MIN_CACHED_ENTRIES = 200
_NOTHING = pa.table({})
_COUNTS = {name: pa.schema([pa.field(name, pa.binary())]) for name in COUNTS}


@dataclass(slots=True)
class ManifestCache:
    """The cache of decoded manifests.

    Attributes:
        cache: The store of the decoded entries.
        version: Takes the recorded path of a manifest, and returns its physical path and its current version in the
            storage. The size of a version is 0 if it has not been requested, and the version is None if it is unknown.
    """

    cache: Cache
    version: Callable[[str], tuple[str, FileVersion | None]]
    _changed_manifests: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def note_size(self, recorded: str, size: int) -> None:
        """Record the bytes read from a manifest. If its version has another size, the manifest is not cached."""
        _, version = self.version(recorded)
        if version is not None and version.size not in (0, size):
            self._changed_manifests.add(recorded)

    def get(self, recorded: str, fields: Sequence[int]) -> tuple[bytes, StoredEntries] | None:
        """Return a manifest's header and live entries with bounds of `fields`, or None if a part is not cached."""
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
        return None if header is None else (header, _from_cache(entry, facts, Extent(tuple(fields))))

    def put(self, recorded: str, header: bytes, raw: StoredEntries, counts: Mapping[str, pa.Array]) -> None:
        """Cache the live entries of one manifest.

        A small local manifest is not cached, because decoding it is faster than caching it. In an object store, a
        cached manifest saves a request.

        Args:
            recorded: The recorded path of the manifest.
            header: The bytes of its header.
            raw: Its live entries.
            counts: The encoded maps of counts, by name.
        """
        physical, _ = self.version(recorded)
        key = None if len(raw) < MIN_CACHED_ENTRIES and is_local(physical) else self._key(recorded)
        if key is None:
            return
        facts = raw.table.select(FACTS.names)
        place = facts.schema.get_field_index("partition")
        # drops the tuples of other manifests
        tuples = facts.column(place).cast(pa.binary()).combine_chunks().dictionary_encode()
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
        """Return whether an earlier read has established that these manifests list no data file twice.

        Args:
            manifests: Recorded paths, in order.
        """
        key = self._key_of_all(manifests)
        return key is not None and self.cache.get(key) is not None

    def note_distinct_paths(self, manifests: Sequence[str]) -> None:
        """Record that no data file is live twice in these manifests."""
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
        if version is None or recorded in self._changed_manifests:
            return None
        return Key("manifest", physical, version.size, version.token)


def _bounds_key(key: Key, field: int) -> Key:
    return Key(f"manifest bounds {field}", key.path, key.size, key.token)


def _from_cache(entry: StoredTable, facts: pa.Table, extent: Extent) -> StoredEntries:
    def paths() -> pa.ChunkedArray:
        return entry.columns(pa.schema([pa.field("path", pa.string(), nullable=False)])).column(0)

    def counts(name: str, keys: Sequence[int], places: Indices) -> Mapping[int, tuple[Indices, Mask]]:
        return _counts_in(entry.columns(_COUNTS[name]).column(0).take(from_numpy(places)).combine_chunks(), keys)

    return StoredEntries(facts, extent, paths, counts)
