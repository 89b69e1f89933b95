"""Small manifests of stores in the cache, as they are: a request takes longer than decoding them.

Of large ones the cache has what was decoded, see `harness.iceberg.columns.kept`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from harness.cache.entries import StrangeEntryError
from harness.cache.kept import Cache
from harness.cache.keys import Key
from harness.storage.listings import FileVersion

MOST_BYTES = 256 << 10
_BYTES = pa.schema([pa.field("manifest", pa.binary(), nullable=False)])


def kept_bytes(cache: Cache, physical: str, version: FileVersion, read: Callable[[], bytes]) -> bytes:
    """The bytes of a manifest, by `read` where they are not kept; what has another length than its version is not."""
    if version.size > MOST_BYTES:
        return read()
    key = Key("manifest bytes", physical, version.size, version.token)
    entry = cache.get(key)
    if entry is not None:
        try:
            return bytes(entry.columns(_BYTES).column(0)[0].as_py())
        except (StrangeEntryError, IndexError):
            cache.drop(key)
    data = read()
    if len(data) == version.size:
        cache.put(key, pa.table([pa.array([data], pa.binary())], schema=_BYTES))
    return data
