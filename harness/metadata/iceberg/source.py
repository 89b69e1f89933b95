"""What a scan reads from: one version of a table's metadata, where its files are, and how the caller wants it read."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from harness.errors import MissingFileError
from harness.metadata.iceberg.columns.kept import KeptManifests
from harness.metadata.iceberg.manifest_entries import ManifestFile
from harness.metadata.iceberg.metadata import TableMetadata
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.decoded import Cache, Key
from harness.storage.listings import FileVersion
from harness.storage.paths import PathMap, is_local
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import read_ahead

# Small manifests of stores in the cache, as they are: a request takes longer than decoding them.
#
# Of large ones the cache has what was decoded, see `harness.metadata.iceberg.columns.kept`.


MOST_BYTES = 256 << 10
_BYTES = pa.schema([pa.field("manifest", pa.binary(), nullable=False)])


def kept_bytes(cache: Cache, physical: str, version: FileVersion, read: Callable[[], bytes]) -> bytes:
    """The bytes of a manifest, by `read` where they are not kept; what has another length than its version is not."""
    if version.size > MOST_BYTES:
        return read()
    key = Key("manifest bytes", physical, version.size, version.token)
    known = cache.columns(key, _BYTES)
    if known is not None and known.num_rows:
        return bytes(known.column(0)[0].as_py())
    data = read()
    if len(data) == version.size:
        cache.put(key, pa.table([pa.array([data], pa.binary())], schema=_BYTES))
    return data


_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of RFC 9562 that was drawn, and not made of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """What a scan reads from: one version of a table's metadata, where its files are, and how to read them."""

    location: str
    metadata: TableMetadata
    storage: Storage
    options: ReadOptions

    @property
    def path_map(self) -> PathMap:
        """From recorded paths to physical ones: the caller's, then those that follow from the table's own move."""
        return self.options.path_map

    def kept_manifests(self, manifests: Iterable[ManifestFile]) -> KeptManifests | None:
        """What is known of these manifests from earlier reads; None: nothing may be kept."""
        cache = self.options.cache
        if cache is None:
            return None
        listed = {manifest.path: manifest for manifest in manifests}
        return KeptManifests(cache, functools.cache(functools.partial(self._version, cache, listed)))

    def _version(
        self, cache: Cache, listed: Mapping[str, ManifestFile], recorded: str
    ) -> tuple[str, FileVersion | None]:
        physical = self.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        known = None if cache.folder is None or is_local(physical) else self._listed_version(listed.get(recorded))
        return physical, known or cache.version(self.storage, physical)

    def _listed_version(self, manifest: ManifestFile | None) -> FileVersion | None:
        """What tells a manifest in a store from others without asking it; None: the list does not say.

        A manifest never changes, and a random UUID in its name was drawn for no other one. Without one, as in a slice
        that is pulled anew over an old one, the same name may mean another file.
        """
        uuid = self.metadata.uuid
        if manifest is None or not manifest.length or manifest.added_snapshot_id is None or uuid is None:
            return None
        if _RANDOM.search(manifest.path.rpartition("/")[2].lower()) is None:
            return None
        return FileVersion(manifest.length, f"listed;table={uuid};snapshot={manifest.added_snapshot_id}")

    @contextmanager
    def reading(
        self, manifests: Sequence[ManifestFile], *, unless: Callable[[ManifestFile], bool] = lambda _: False
    ) -> Iterator[Callable[[ManifestFile], bytes]]:
        """A function that gives the bytes of manifests, to be asked in their order; a store's are read ahead.

        unless: whether what one holds is known, so that it is not asked for.
        """
        waits = any(not is_local(self.path_map.physical(manifest.path)) for manifest in manifests[:1])
        wanted = [manifest for manifest in manifests if not unless(manifest)] if waits else ()
        with read_ahead(self._manifest, wanted) as read:
            yield read

    def _manifest(self, manifest: ManifestFile) -> bytes:
        cache, physical = self.options.cache, self.path_map.physical(manifest.path)
        version = self._listed_version(manifest)
        if cache is None or cache.folder is None or version is None or is_local(physical):
            return self.read(manifest.path, "manifest")
        self.storage.check(physical, manifest.path)
        return kept_bytes(cache, physical, version, lambda: self.read(manifest.path, "manifest"))

    def read(self, recorded: str, what: str) -> bytes:
        """The bytes of a metadata file of the table, by its recorded path.

        Raises:
            MissingFileError: it is not where the path map says; names both paths (iceberg 1.12).
            OutsideTableError, StorageError: it may not be read, or its storage fails.
        """
        physical = self.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        try:
            return self.storage.read(physical)
        except MissingFileError as error:
            error.message = f"Cannot read {what}: {error.message}"
            error.file = recorded if recorded == physical else f"{recorded} ({physical})"
            error.cause = "MissingFile"
            raise
