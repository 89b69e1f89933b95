"""What the files of a slice are called: as below the source's location, where that is safe, else by a digest.

Paths come from metadata that anyone may have written. A path that leaves the slice, that no file system takes, or that
is the metadata's own becomes a name that says nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_RESERVED = frozenset({"metadata", "_delta_log"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]")
_MAX_SEGMENT = 200  # bytes; file systems take 255
_MAX_PATH = 1000  # bytes
_PLAIN = re.compile(r"[^A-Za-z0-9._=-]")


class Names:
    """Gives each file of the source its path in the slice, relative to its directory, always the same one."""

    def __init__(self, locations: Iterable[str], refreshed: int = 0, *, numbered: bool = False) -> None:
        """For a source whose files are below one of `locations`, as its metadata or storage calls them.

        refreshed: how often the slice was; files that are written anew have other names each time.
        numbered: names say nothing of the source's, but in which order they were asked for.
        """
        self.refreshed = refreshed
        self._numbered = numbered
        self._prefixes = [location.rstrip("/") + "/" for location in locations]
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._folders: set[str] = set()

    def written(self, path: str, *, ending: str = "") -> str:
        """The path of a file in the slice that is not the source's own, but made of it."""
        name = self.of(path, ending=ending)
        return name if self.refreshed == 0 else f"refresh-{self.refreshed}/{name}"

    def of(self, path: str, *, ending: str = "", folder: str = "data") -> str:
        """The path of a file in the slice.

        path: what the source calls it. ending: what its name must end with. folder: for names by digest.
        """
        found = self._given.get(path)
        if found is None:
            found = (
                self._number(ending)
                if self._numbered
                else self._safe(path, ending) or self._digest(path, ending, folder)
            )
            self._given[path] = found
            self._taken.add(found.casefold())
            self._folders.update(_folders(found.casefold()))
        return found

    def _safe(self, path: str, ending: str) -> str | None:
        """The part below the location, if it is one that a file of the slice can have and no other file has."""
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        if prefix is None:
            return None
        relative = path[len(prefix) :]
        relative = relative if relative.endswith(ending) else relative + ending
        segments = relative.split("/")
        if not all(map(_is_plain, segments)) or segments[0].casefold() in _RESERVED or segments[0][0] in "._":
            return None
        # Names that differ by case alone are one on some file systems, and stores let a name be file and folder.
        folded = relative.casefold()
        if folded in self._taken or folded in self._folders or self._taken & set(_folders(folded)):
            return None
        return relative if len(relative.encode()) <= _MAX_PATH else None

    def _number(self, ending: str) -> str:
        return f"data/{len(self._given):06d}{ending or '.parquet'}"

    def _digest(self, path: str, ending: str, folder: str) -> str:
        last = _PLAIN.sub("_", path.rsplit("/", 1)[-1])[-60:].lstrip("._")
        name = f"{hashlib.sha256(path.encode(errors='surrogatepass')).hexdigest()[:32]}-{last}"
        return f"{folder}/{name if name.endswith(ending) else name + ending}"


def _is_plain(segment: str) -> bool:
    if segment in ("", ".", "..") or _UNSAFE.search(segment) is not None:
        return False
    try:
        return len(segment.encode()) <= _MAX_SEGMENT
    except UnicodeError:
        return False


def _folders(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))
