"""The source of a scan: a version of a table's metadata, and the way to read the metadata files that it lists."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from harness.errors import MissingFileError
from harness.metadata.iceberg.columns.raw import KeptManifests
from harness.metadata.iceberg.manifests import ManifestFile
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.decoded import Key
from harness.storage.paths import PathMap, is_local
from harness.storage.records import dataclass
from harness.storage.stores import FileVersion, Storage
from harness.storage.threads import phase, read_ahead

MOST_BYTES = 256 << 10
"""Manifests of stores up to this length are kept as they are: a request takes longer than decoding them."""
_BYTES = pa.schema([pa.field("manifest", pa.binary(), nullable=False)])

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of RFC 9562 that was drawn, and not made of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """A version of a table's metadata, with the places of its files and the way to read them."""

    location: str
    metadata: TableMetadata
    storage: Storage
    options: ReadOptions

    @property
    def path_map(self) -> PathMap:
        """The map from recorded paths to physical ones: the caller's, then that of the table's own move."""
        return self.options.path_map

    def kept_manifests(self, manifests: Iterable[ManifestFile]) -> KeptManifests | None:
        """The cache of these manifests from earlier reads; None: nothing may be kept."""
        cache = self.options.cache
        if cache is None:
            return None
        listed = {manifest.path: manifest for manifest in manifests}

        @functools.cache
        def version(recorded: str) -> tuple[str, FileVersion | None]:
            physical = self.path_map.physical(recorded)
            self.storage.check(physical, recorded)
            known = None if cache.folder is None or is_local(physical) else self._listed_version(listed.get(recorded))
            return physical, known or cache.version(self.storage, physical)

        return KeptManifests(cache, version)

    def _listed_version(self, manifest: ManifestFile | None) -> FileVersion | None:
        """The version of a manifest in a store without asking it; None: no UUID in its name makes it unique."""
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

        unless: true of manifests whose content is known, so that they are not read.
        """
        waits = any(not is_local(self.path_map.physical(manifest.path)) for manifest in manifests[:1])
        wanted = [manifest for manifest in manifests if not unless(manifest)] if waits else ()
        number = len(wanted if waits else manifests)
        with phase("reading manifests", number, "manifests") as advance, read_ahead(self._manifest, wanted) as read:

            def counted(manifest: ManifestFile) -> bytes:
                data = read(manifest)
                advance(1)
                return data

            yield counted

    def _manifest(self, manifest: ManifestFile) -> bytes:
        cache, physical = self.options.cache, self.path_map.physical(manifest.path)
        version = self._listed_version(manifest)
        if cache is None or cache.folder is None or version is None or is_local(physical):
            return self.read(manifest.path, "manifest")
        self.storage.check(physical, manifest.path)
        key = Key("manifest bytes", physical, version.size, version.token)
        known = cache.columns(key, _BYTES) if version.size <= MOST_BYTES else None
        if known is not None and known.num_rows:
            return bytes(known.column(0)[0].as_py())
        data = self.read(manifest.path, "manifest")
        if len(data) == version.size <= MOST_BYTES:
            cache.put(key, pa.table([array_of([data], pa.binary())], schema=_BYTES))
        return data

    def read(self, recorded: str, what: str) -> bytes:
        """The bytes of a metadata file of the table, by its recorded path.

        The manifest list may record a wrong length of a manifest (iceberg 2.3), so the length is not compared.

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
