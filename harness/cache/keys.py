"""What an entry is called: by what it holds, and of which version of which file."""

from __future__ import annotations

import hashlib
import json

from harness.records import dataclass

LAYOUT = 2
"""Of entries, and of how their values came about. Another one has other names, so that no entry is taken for what it is
not: until 1, bounds of checkpoints were wrong outside the years 1901 to 2262."""


@dataclass(frozen=True, slots=True)
class Key:
    """The name of an entry.

    kind: what it holds of the file, such as `manifest`.
    path: the file's, physical. size: its bytes. token: what its storage says of the version, see
        `harness.storage.listings.FileVersion`.
    """

    kind: str
    path: str
    size: int
    token: str

    @property
    def text(self) -> bytes:
        """All of it in one text that no other key has; it stands in the entry, too. A path may hold a secret."""
        path = hashlib.blake2b(self.path.encode(errors="surrogatepass"), digest_size=32).hexdigest()
        return json.dumps([LAYOUT, self.kind, path, self.size, self.token]).encode()

    @property
    def name(self) -> str:
        """A name that a file can have everywhere."""
        return hashlib.blake2b(self.text, digest_size=20).hexdigest()
