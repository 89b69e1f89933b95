"""What a scan reads from: one version of a table's metadata, where its files are, and how the caller wants it read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.cache.kept import Cache
from harness.errors import MissingFileError
from harness.iceberg.columns.kept import KeptManifests
from harness.iceberg.manifest_list import ManifestFile
from harness.iceberg.metadata import TableMetadata
from harness.plan.read_options import ReadOptions
from harness.records import dataclass
from harness.storage.listings import FileVersion
from harness.storage.paths import PathMap, is_local
from harness.storage.read_ahead import read_ahead
from harness.storage.stores import Storage


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

    def kept_manifests(self) -> KeptManifests | None:
        """What is known of manifests from earlier reads; None: nothing may be kept."""
        cache = self.options.cache
        return None if cache is None else KeptManifests(cache, functools.cache(functools.partial(self._version, cache)))

    def _version(self, cache: Cache, recorded: str) -> tuple[str, FileVersion | None]:
        physical = self.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        return physical, cache.version(self.storage, physical)

    @contextmanager
    def reading(
        self, manifests: Sequence[ManifestFile], *, unless: Callable[[ManifestFile], bool] = lambda _: False
    ) -> Iterator[Callable[[ManifestFile], bytes]]:
        """A function that gives the bytes of manifests, to be asked in their order; a store's are read ahead.

        unless: whether what one holds is known, so that it is not asked for.
        """
        waits = any(not is_local(self.path_map.physical(manifest.path)) for manifest in manifests[:1])
        wanted = [manifest for manifest in manifests if not unless(manifest)] if waits else ()
        with read_ahead(lambda manifest: self.read(manifest.path, "manifest"), wanted) as read:
            yield read

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
