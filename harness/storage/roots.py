"""Roots: the directories that a table may be read from, and what becomes of a path that leads out of them.

A table's metadata may name any file that the process may read. Its roots are its own directory, what the caller maps
paths to, and what else the caller allows. Every path is held against them by its directory, in canonical form, with
links resolved; directories are few where files are many, and each is asked about once.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from dataclasses import field, replace

from harness.errors import OutsideTableError, warn
from harness.storage.gate import is_name, refuse_no_name
from harness.storage.paths import Place, absolute, climbs, is_local, local_path, place, places, shown
from harness.storage.records import dataclass

_SHOWN = 5


class Outside(enum.Enum):
    """The fate of a path that leaves the roots within the table's store."""

    WARN = "warn"
    REFUSE = "refuse"


class Verdict(enum.Enum):
    """The place of a directory, seen from the roots."""

    INSIDE = enum.auto()
    OUTSIDE = enum.auto()  # in the store of the table
    FOREIGN = enum.auto()  # in another one


def folder_of(path: str) -> str:
    """The directory of a file, physical; of a bucket or host without a path, that itself."""
    folder = path.rpartition("/")[0]
    return path if folder.endswith(":/") else folder


def metadata_root(file: str) -> str:
    """The table's directory, by the path of its metadata file: above a directory called `metadata`, else the file's.

    The location in the metadata itself does not count: `/` would hold everything. A whole disk is no table's directory:
    that of `/metadata/v1.metadata.json` is `/metadata`.
    """
    folder = folder_of(_slashed(file))
    above, _, name = folder.rpartition("/")
    return above if name == "metadata" and above.strip("/") and not _is_drive(above) else folder


@dataclass(slots=True)
class _Met:
    """The directories outside that one read came upon. told: whether they were named in a warning."""

    folders: dict[str, None] = field(default_factory=dict)
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The directories and stores that one table may read.

    table: its location, for messages.
    home: the store that it is in.
    outside: what becomes of paths elsewhere in that store.
    names: the roots as they were given, for messages.
    allowed: the roots in canonical form.
    exact: the paths of roots, each of which may be a file, and so is read whatever its directory is.
    """

    table: str
    home: str = field(repr=False)
    outside: Outside
    names: tuple[str, ...] = field(default=(), repr=False)
    allowed: tuple[Place, ...] = field(default=(), repr=False)
    exact: frozenset[str] = field(default=frozenset(), repr=False)
    _verdicts: dict[str, Verdict] = field(default_factory=dict, repr=False, compare=False)
    _above: dict[str, tuple[str, bool]] = field(default_factory=dict, repr=False, compare=False)
    _met: _Met = field(default_factory=_Met, repr=False, compare=False)

    @staticmethod
    def of(location: str, more: Iterable[str] = (), *, outside: Outside = Outside.WARN) -> Roots:
        """The roots of the table at `location`; `more`: others that the caller names. Relative ones start here.

        Raises:
            MissingFileError: no file can be called like one of them.
        """
        refuse_no_name(location)
        home = place(os.path.realpath(_absolute(location)) if is_local(location) else location).store
        return Roots(table=shown(location), home=home, outside=outside).including(location, *more)

    def including(self, *roots: str) -> Roots:
        """These roots and others, for the same read. Raises as `of`."""
        for root in roots:
            refuse_no_name(root)
        spelled = [_slashed(plain).rstrip("/") or ("/" if plain else ".") for plain in map(local_path, roots)]
        named = {root: _forms(root) for root in spelled}
        new = {root: forms for root, forms in named.items() if self._placed(forms) is not Verdict.INSIDE}
        return replace(
            self,
            names=(*self.names, *new),
            allowed=(*self.allowed, *(form for forms in new.values() for form in forms)),
            exact=self.exact.union(spelled, (absolute(root, os.getcwd()) for root in spelled)),
            _verdicts={},
            _above={},
        )

    def for_read(self) -> Roots:
        """The same roots for a read of its own, which gives its own warning."""
        return replace(self, _met=_Met())

    def forgetting(self) -> Roots:
        """The same roots, with nothing known of any directory."""
        return replace(self, _verdicts={}, _above={}, _met=_Met())

    def verdict(self, folder: str) -> Verdict:
        """The verdict on a physical directory, links in its path resolved."""
        known = self._verdicts.get(folder)
        if known is None:
            known = self._verdicts[folder] = self._judged(folder)
        return known

    def check(self, path: str, recorded: str | None = None) -> None:
        """Returns if a file may be read, by the directory that it is in.

        Args:
            path: physical.
            recorded: its path in the metadata, if that is known to be another.

        Raises:
            OutsideTableError: it may not; names the file, the roots and what would allow it.
        """
        if self._verdicts.get(path.rpartition("/")[0]) is Verdict.INSIDE or path.rstrip("/") in self.exact:
            return
        folder = folder_of(path)
        verdict = self.verdict(folder)
        if verdict is Verdict.INSIDE:
            return
        if verdict is Verdict.FOREIGN:
            raise self._refusal("it is in another store than the table", path, recorded)
        if climbs(path if recorded is None else recorded):
            raise self._refusal("its path leads out of the table by '..'", path, recorded)
        if self.outside is Outside.REFUSE:
            raise self._refusal("outside='refuse' is set", path, recorded)
        self._meet(folder)

    def followed(self, link: str) -> str:
        """The file that a link leads to, local, if that may be read. Raises as `check`."""
        path = os.path.realpath(link)
        if link.rstrip("/") not in self.exact:
            self.check(path, link)
        return path

    def told(self) -> str | None:
        """A sentence that names the outside directories met so far; None: there are none.

        From now on, the first other one gives a warning by itself.
        """
        folders = tuple(self._met.folders)
        self._met.told = True
        return self._sentence(folders) if folders else None

    def _meet(self, folder: str) -> None:
        met = self._met
        # A path of another machine leads nowhere on this one: that is said of the file, which is missing.
        if folder in met.folders or (is_local(folder) and not os.path.isdir(folder)):
            return
        met.folders[folder] = None
        if met.told:  # a link between the data files shows only when they are opened
            met.told = False
            warn(f"Table {self.table}: {self._sentence((folder,))}")

    def _sentence(self, folders: tuple[str, ...]) -> str:
        listed = ", ".join(map(shown, folders[:_SHOWN]))
        more = f" and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else ""
        return f"Files outside of the table are read, in {listed}{more}; name these as allowed roots if that is right"

    def _judged(self, folder: str) -> Verdict:
        if not is_name(folder):
            return Verdict.INSIDE  # no file is there: the gate says so of the path
        if not is_local(folder):
            return self._placed(places(folder))
        parent, slash, name = folder.rpartition("/")
        if slash and name not in ("", ".", "..") and os.name != "nt":
            # Of directories side by side, the one above them is resolved once.
            real, is_inside = self._above.get(parent) or self._look_above(parent)
            if is_inside and not os.path.islink(f"{real}/{name}"):
                return Verdict.INSIDE
        return self._placed(_local_forms(folder, os.path.realpath(folder or "/")))

    def _look_above(self, parent: str) -> tuple[str, bool]:
        real = os.path.realpath(parent or "/")
        found = self._above[parent] = (real, self._placed(_local_forms(parent, real)) is Verdict.INSIDE)
        return found

    def _placed(self, found: tuple[Place, ...]) -> Verdict:
        if all(any(form.is_within(root) for root in self.allowed) for form in found):
            return Verdict.INSIDE
        return Verdict.OUTSIDE if found[0].store == self.home else Verdict.FOREIGN

    def _refusal(self, reason: str, path: str, recorded: str | None) -> OutsideTableError:
        same = recorded is None or recorded == path
        return OutsideTableError(
            f"Cannot read a file beyond the table's roots: {reason}. They are {', '.join(map(shown, self.names))}; add "
            "one with allowed_roots, or say with path_map where the file is",
            table=self.table,
            file=shown(path) if same else f"{shown(recorded or '')} ({shown(path)})",
            options=("allowed_roots", "path_map", "outside"),
        )


def _slashed(path: str) -> str:
    """A local path of Windows with the slashes that all paths are cut at; every other path as it is."""
    return path.replace("\\", "/") if os.name == "nt" and is_local(path) else path


def _is_drive(path: str) -> bool:
    return os.name == "nt" and path.endswith(":")


def _forms(root: str) -> tuple[Place, ...]:
    """The canonical forms of a root, links resolved."""
    if not is_local(root):
        return places(root)
    path = _absolute(root)
    return _local_forms(path, os.path.realpath(path))


def _local_forms(path: str, resolved: str) -> tuple[Place, ...]:
    """The places of a local path: with links resolved, and as spelled for a share or a doubled slash."""
    spelled = place(path)
    return (place(resolved),) if spelled.store == "file" else (spelled, place(resolved))


def _absolute(location: str) -> str:
    return os.path.abspath(local_path(location)) if is_local(location) else location
