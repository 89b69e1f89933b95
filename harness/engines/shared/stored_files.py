"""A stored file as a stream that libraries can seek in, so that they read the end of a file without the rest."""

from __future__ import annotations

import io
from typing import IO, cast

from harness.engines.shared.data_files import FileName
from harness.storage.stores import Storage


def opened(file: FileName, storage: Storage) -> IO[bytes]:
    """The bytes of a file, each read when it is asked for."""
    return cast(IO[bytes], io.BufferedReader(_Stored(storage, file.physical)))


class _Stored(io.RawIOBase):
    """A stored file that can seek, and reads what is asked for only."""

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path
        self._size, self._position = storage.size(path), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast(bytearray, buffer))
        data = self._storage.read(self._path, offset=self._position, length=len(target))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)
