"""The states of a table over a range of snapshots, and the spans in which files were live (iceberg 8.2, 8.3).

Consecutive states are compared: first the manifests in their manifest lists, and then the live files in the manifests
that only one of them lists. So neither merged manifests nor wrong statuses of entries change the result. Only if the
state before the range expired do statuses decide what the first commit added and removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.metadata.iceberg.change_range import SnapshotRange
from harness.metadata.iceberg.manifests import ManifestFile, Status
from harness.metadata.iceberg.scan import manifests_of_each
from harness.metadata.model.arrow_values import Indices
from harness.metadata.plan.lifetimes import BEFORE, Span
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

ALWAYS = Span(BEFORE)
"""The span of a file that no commit of the range changed."""
_NO_CODES = np.zeros(0, dtype=np.int64)
EXPIRED = RecordedPath("")
"""Stands for the manifests of an expired state before the range: it lists the files that were live then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The manifests in the states of a range.

    Attributes:
        manifests: All manifests by path, in the order in which they came. Each is described by the newest manifest list
            that has it, because a manifest may get row ids after it was written.
        before: The manifests of the state before the range.
        changes: For each commit, the manifests that are new and those that are gone.
        first: The id of the first snapshot if the state before it expired, else None.
        changed: The manifests that a commit added or removed.
        incomplete: The manifests whose entries show what was live in an expired state before the range.
    """

    manifests: Mapping[RecordedPath, ManifestFile]
    before: tuple[RecordedPath, ...]
    changes: tuple[tuple[Sequence[RecordedPath], Sequence[RecordedPath]], ...]
    first: int | None
    changed: frozenset[RecordedPath]
    incomplete: frozenset[RecordedPath]

    @staticmethod
    def read(source: IcebergTable, commits: SnapshotRange) -> States:
        """Return the states of a range. Every manifest list is read once."""
        first = commits.snapshots[0].id if commits.is_expired and commits.snapshots else None
        snapshots = commits.snapshots if commits.before is None else (commits.before, *commits.snapshots)
        manifests: dict[RecordedPath, ManifestFile] = {}
        before: dict[RecordedPath, None] = {}
        changes: list[tuple[Sequence[RecordedPath], Sequence[RecordedPath]]] = []
        previous = before
        for snapshot, state in zip(snapshots, manifests_of_each(source, snapshots), strict=True):
            manifests |= {manifest.path: manifest for manifest in state}
            paths = dict.fromkeys(manifest.path for manifest in state)
            if snapshot is commits.before:
                before = previous = paths
                continue
            if snapshot.id == first:
                before = dict.fromkeys(m.path for m in state if m.added_snapshot_id not in (None, first))
                before[EXPIRED] = None
                previous = before
            changes.append(([p for p in paths if p not in previous], [p for p in previous if p not in paths]))
            previous = paths
        return States(
            manifests=manifests,
            before=tuple(before),
            changes=tuple(changes),
            first=first,
            changed=frozenset(path for change in changes for paths in change for path in paths),
            incomplete=frozenset(changes[0][0]) if first is not None else frozenset(),
        )

    def was_live_before(self, status: int, snapshot_id: int | None) -> bool:
        """Return whether an entry of an incomplete manifest shows a file of the expired state (iceberg 8.2)."""
        return status == Status.EXISTING or (snapshot_id == self.first) == (status == Status.DELETED)

    def spans(self, live: Mapping[str, Indices]) -> dict[int, tuple[Span, ...]]:
        """Return the spans of each file that was live in the range, by the code of the file.

        Args:
            live: The codes of the live files in each manifest. Other manifests are ignored. A file has one code, and
                several manifests may list it.
        """
        starts: defaultdict[int, list[int]] = defaultdict(list)
        spans: defaultdict[int, list[Span]] = defaultdict(list)
        unchanged = [live[path] for path in self.before if path in live and path not in self.changed]
        stays, numbers = np.unique(np.concatenate([_NO_CODES, *unchanged]), return_counts=True)
        is_single = ~np.isin(stays, np.concatenate([_NO_CODES, *(live[p] for p in self.changed if p in live)]))
        is_single &= numbers == 1
        for code, number in zip(stays[~is_single].tolist(), numbers[~is_single].tolist(), strict=True):
            starts[code] += [BEFORE] * number
        for path in self.before:
            for code in live[path].tolist() if path in live and path in self.changed else ():
                starts[code].append(BEFORE)
        for commit, (new, gone) in enumerate(self.changes):
            signed = [(live[path], sign) for paths, sign in ((new, 1), (gone, -1)) for path in paths if path in live]
            if not signed:
                continue
            signs = np.repeat(np.array([sign for _, sign in signed]), [len(codes) for codes, _ in signed])
            codes, places = np.unique(np.concatenate([codes for codes, _ in signed]), return_inverse=True)
            net = np.zeros(len(codes), dtype=np.int64)
            np.add.at(net, places, signs)
            for code, number in zip(codes[net != 0].tolist(), net[net != 0].tolist(), strict=True):
                for _ in range(-number):
                    spans[code].append(Span(starts[code].pop(0), commit))
                starts[code] += [commit] * number
        for code, commits in starts.items():
            spans[code] += [Span(commit) for commit in commits]
        ordered = {c: tuple(sorted(of_code, key=lambda span: span.added)) for c, of_code in spans.items() if of_code}
        return {**dict.fromkeys(stays[is_single].tolist(), (ALWAYS,)), **ordered}
