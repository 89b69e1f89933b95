"""Entries of manifests in the cache: what was decoded of a manifest's bytes, so that these need not be read again.

An entry has the manifest's header and what all plans need; the encoded bounds of each column have entries of their own,
made once a filter asks for them. Sequence numbers that are inherited, types of partition values and the like are not in
it: they follow from the table's metadata, which may change while the manifest does not.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from harness.errors import CorruptFileError
from harness.metadata.iceberg.columns.data_files import COUNTS
from harness.metadata.iceberg.columns.raw import FACTS, PATH, Mask, Raw, bounds_schema, counts_in
from harness.metadata.iceberg.columns.varints import Places, Unsure
from harness.metadata.model.arrow_values import from_numpy
from harness.storage.decoded import Cache, Key
from harness.storage.decoded_folder import Entry, StrangeEntryError
from harness.storage.listings import FileVersion
from harness.storage.paths import is_local
from harness.storage.records import dataclass

_HEADER = b"header"
_FEW = 200
_NOTHING = pa.table({})
_COUNTS = {name: pa.schema([pa.field(name, pa.binary())]) for name in COUNTS}


@dataclass(frozen=True, slots=True)
class KeptManifests:
    """The cache, and the version of each manifest that storage has now."""

    cache: Cache
    version: Callable[[str], tuple[str, FileVersion | None]]
    """From a recorded path to the physical one and its version, whose size is 0 where nobody asked for it."""
    _others: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)

    def note_size(self, recorded: str, size: int) -> None:
        """So many bytes were read of a manifest: if its version has others, nothing is kept of it."""
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
            bounds = self.cache.columns(_bounds_key(key, field), bounds_schema((field,)))
            if bounds is None or len(bounds) != len(facts):
                return None
            for name in bounds.schema.names:
                facts = facts.append_column(bounds.schema.field(name), bounds.column(name))
        header = entry.about.get(_HEADER)
        return None if header is None else (header, _raw(entry, facts, tuple(fields), recorded))

    def put(self, recorded: str, header: bytes, raw: Raw, counts: Mapping[str, pa.Array]) -> None:
        """Keeps the live entries of one manifest. counts: the encoded maps.

        A small one is decoded in less time than it takes to keep it, but a store is asked for it once less.
        """
        physical, _ = self.version(recorded)
        key = None if len(raw) < _FEW and is_local(physical) else self._key(recorded)
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
        for field in raw.fields:
            self.cache.put(_bounds_key(key, field), raw.table.select(bounds_schema((field,)).names))

    def has_distinct_paths(self, manifests: Sequence[str]) -> bool:
        """Whether it was found that no data file is live twice in these manifests, recorded paths in order."""
        key = self._key_of_all(manifests)
        return key is not None and self.cache.get(key) is not None

    def note_distinct_paths(self, manifests: Sequence[str]) -> None:
        """It was found."""
        key = self._key_of_all(manifests)
        if key is not None:
            self.cache.put(key, _NOTHING)

    def _key_of_all(self, manifests: Sequence[str]) -> Key | None:
        digest = hashlib.blake2b()
        for manifest in manifests:
            key = self._key(manifest)
            if key is None:
                return None
            digest.update(bytes.fromhex(key.name))
        return Key("distinct paths", "", len(manifests), digest.hexdigest())

    def _key(self, recorded: str) -> Key | None:
        physical, version = self.version(recorded)
        if version is None or recorded in self._others:
            return None
        return Key("manifest", physical, version.size, version.token)


def _bounds_key(key: Key, field: int) -> Key:
    return Key(f"manifest bounds {field}", key.path, key.size, key.token)


def _raw(entry: Entry, facts: pa.Table, fields: tuple[int, ...], recorded: str) -> Raw:
    def paths() -> pa.ChunkedArray:
        with _sound(recorded):
            return entry.columns(PATH).column(0)

    def counts(name: str, keys: Sequence[int], places: Places) -> Mapping[int, tuple[Places, Mask]]:
        with _sound(recorded):
            return counts_in(entry.columns(_COUNTS[name]).column(0).take(from_numpy(places)).combine_chunks(), keys)

    return Raw(facts, fields, paths, counts)


@contextmanager
def _sound(recorded: str) -> Iterator[None]:
    """What has the right digest and is wrong all the same was put there on purpose."""
    try:
        yield
    except (StrangeEntryError, Unsure, IndexError) as error:
        raise CorruptFileError(
            f"The cache holds a wrong entry ({error}): empty it, and look who may write there", file=recorded
        ) from error
