"""A cursor into a JSON document that knows its place, so that parsers stay declarative and errors exact.

A JSON null counts as a missing key everywhere (iceberg 1.16), and integers are never taken from floats, texts or
booleans. The place is only spelled out when an error is raised, because metadata may hold many thousands of snapshots.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from harness.errors import CorruptFileError, InvalidTableError, UnsupportedError
from harness.metadata.files.documents import TooLongError, all_streams, unzstd
from harness.storage.limits import Limits, refusal
from harness.storage.records import dataclass

E = TypeVar("E", bound=enum.Enum)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Json:
    """A value inside a JSON document.

    value: as `json.loads` gives it. path: keys and indexes from the root of `file` to it. rule: that errors cite.
    """

    value: Any
    file: str | None = None
    path: tuple[str | int, ...] = ()
    rule: str | None = None

    def under(self, rule: str) -> Json:
        """The same value, with another rule for errors to cite."""
        return replace(self, rule=rule)

    def error(self, message: str, *, key: str | None = None, cause: str | None = None) -> InvalidTableError:
        """An error at this place, or at the member `key` of this object."""
        path = self.path if key is None else (*self.path, key)
        return InvalidTableError(message, cause=cause, file=self.file, field=pointer(path), rule=self.rule)

    def object(self) -> dict[str, Any]:
        """The value, which must be an object."""
        if type(self.value) is not dict:
            raise self.error(f"Invalid value: got {show(self.value)}, expected an object")
        return self.value

    def items(self) -> Iterator[Json]:
        """The elements of the value, which must be a list."""
        if type(self.value) is not list:
            raise self.error(f"Invalid value: got {show(self.value)}, expected a list")
        for index, value in enumerate(self.value):
            yield Json(value, self.file, (*self.path, index), self.rule)

    def has(self, key: str) -> bool:
        """True if the object has `key` with a value other than null."""
        return self.object().get(key) is not None

    def child(self, key: str) -> Json:
        """The member `key`, which must be there."""
        return Json(self._required(key, self.object().get(key)), self.file, (*self.path, key), self.rule)

    def _required(self, key: str, value: V | None) -> V:
        if value is None:
            raise self.error(f"Missing required field '{key}'", key=key)
        return value

    def optional(self, key: str) -> Json | None:
        """The member `key`; None if it is absent or null."""
        return self.child(key) if self.has(key) else None

    def elements(self, key: str) -> Iterator[Json]:
        """The elements of the list `key`; none if it is absent or null."""
        return self.child(key).items() if self.has(key) else iter(())

    def integer(self, key: str, *, bits: int = 64) -> int:
        """The member `key`, a signed integer of `bits` bits that must be there."""
        return self._required(key, self.optional_integer(key, bits=bits))

    def optional_integer(self, key: str, *, bits: int = 64) -> int | None:
        """The member `key`, a signed integer of `bits` bits; None if it is absent or null."""
        value = self.object().get(key)
        if value is None:
            return None
        # type(), not isinstance(): a bool is an int.
        if type(value) is not int or not -1 << bits - 1 <= value < 1 << bits - 1:
            raise self.error(f"Invalid value: got {show(value)}, expected a {bits}-bit integer", key=key)
        return value

    def snapshot_id(self, key: str) -> int:
        """The member `key`, a snapshot id that must be there.

        Ids are 64 bits that only identify: real tables hold unsigned ones, beyond what a signed integer can hold.
        """
        value = self.child(key).value
        if type(value) is not int or not -1 << 63 <= value < 1 << 64:
            raise self.error(f"Invalid value: got {show(value)}, expected a snapshot id of 64 bits", key=key)
        return value

    def optional_snapshot_id(self, key: str) -> int | None:
        """The member `key`, a snapshot id; None if it is absent or null."""
        return self.snapshot_id(key) if self.has(key) else None

    def integers(self, key: str, *, bits: int = 32) -> tuple[int, ...]:
        """The list of integers `key`; empty if it is absent or null."""
        limit = 1 << bits - 1
        return self._list(key, lambda v: type(v) is int and -limit <= v < limit, f"{bits}-bit integers")

    def text(self, key: str) -> str:
        """The member `key`, a string that must be there."""
        return self._required(key, self.optional_text(key))

    def optional_text(self, key: str) -> str | None:
        """The member `key`, a string; None if it is absent or null."""
        value = self.object().get(key)
        if value is not None and type(value) is not str:
            raise self.error(f"Invalid value: got {show(value)}, expected a string", key=key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings `key`; empty if it is absent or null."""
        return self._list(key, lambda v: type(v) is str, "strings")

    def _list(self, key: str, is_right: Callable[[Any], bool], expected: str) -> tuple[Any, ...]:
        values = self.object().get(key)
        if values is None:
            return ()
        if type(values) is not list or not all(map(is_right, values)):
            raise self.error(f"Invalid value: got {show(values)}, expected a list of {expected}", key=key)
        return tuple(values)

    def boolean(self, key: str) -> bool:
        """The member `key`, true or false, which must be there."""
        value = self.child(key).value
        if type(value) is not bool:
            raise self.error(f"Invalid value: got {show(value)}, expected true or false", key=key)
        return value

    def choice(self, key: str, kind: type[E]) -> E:
        """The member `key`, one of the values of `kind` in any letter case, which must be there."""
        text = self.text(key).lower()
        for member in kind:
            if member.value == text:
                return member
        expected = " or ".join(str(member.value) for member in kind)
        raise self.error(f"Invalid value: got {show(text)}, expected {expected}", key=key)


def pointer(path: tuple[str | int, ...]) -> str:
    """A path as a JSON pointer; `/` for the root."""
    return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)


def show(value: Any) -> str:
    """A JSON value, short enough for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Metadata files as plain bytes: compression is told by the first bytes, never by the name (iceberg 1.7).


GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompress(data: bytes, *, file: str, limits: Limits) -> bytes:
    """The content of a metadata file: gzip and zstd (which is outside the specification) undone, else `data` itself.

    Raises:
        CorruptFileError: the compressed bytes are damaged or cut short.
        LimitError: the content is longer than `limits.document_bytes`.
        UnsupportedError: the file is zstd, and the installed pyarrow has no zstd.
    """
    most = limits.document_bytes
    try:
        if data.startswith(GZIP_MAGIC):
            return all_streams(data, codec="gzip", most=most)
        if data.startswith(ZSTD_MAGIC):
            if not pa.Codec.is_available("zstd"):
                message = "Cannot decompress metadata file: it is zstd, which the installed pyarrow cannot read"
                raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 1.7")
            return unzstd(data, most=most)
        return data
    except TooLongError as error:
        asked = f"its {len(data):,} bytes hold {error.found:,} or more, {most:,} are allowed"
        raise refusal("document_bytes", asked, file=file) from error
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(
            f"Cannot decompress metadata file: {error}", cause="CorruptMetadata", file=file, rule="iceberg 1.7"
        ) from error
