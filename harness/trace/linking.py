"""Following rows from file to file: which version of a row continues which.

A commit that rewrites a file ends the versions in the old file and begins versions in the new file. They are connected
by row ids; the rest by keys; and without keys, by equal values. If several equal rows ended and began in one commit,
their connection is not recorded. Then each of them is a row of its own, and the events state the number of candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field, replace
from typing import TypeAlias, TypeVar

from harness.metadata.plan.lifetimes import BEFORE
from harness.storage.records import dataclass
from harness.trace.model import EventKind, FollowedBy, RowEvent, RowVersion, TracedRow


def follow(versions: Iterable[RowVersion]) -> tuple[TracedRow, ...]:
    """Return the rows to which versions belong, without sentences, ordered by their first version."""
    chains = _Linker().link(_without_repeats(versions))
    rows = [TracedRow(followed_by=c.followed_by, versions=tuple(c.versions), events=tuple(c.events)) for c in chains]
    return tuple(sorted(rows, key=lambda row: (row.events[0].commit, row.versions[0].place)))


def with_replaced_partitions(
    rows: Iterable[TracedRow], is_replaced: Callable[[int, str], bool]
) -> tuple[TracedRow, ...]:
    """Return the rows with events for the removal of whole partitions.

    Args:
        rows: The rows.
        is_replaced: Returns whether the commit with a number removed all files of a partition.
    """

    def event(row: TracedRow, each: RowEvent) -> RowEvent:
        partition = row.versions[each.version].partition
        is_whole = each.kind is EventKind.REMOVED and partition is not None and is_replaced(each.commit, partition)
        return replace(each, kind=EventKind.REPLACED) if is_whole else each

    return tuple(replace(row, events=tuple(event(row, each) for each in row.events)) for row in rows)


def _order(version: RowVersion) -> tuple[int, bool, int, tuple[str, int]]:
    return version.added, version.ended is None, version.ended or 0, version.place


def _without_repeats(versions: Iterable[RowVersion]) -> list[RowVersion]:
    """Return versions in order, each place without invisible versions beside others.

    A file whose span was split is in the plan several times. A row that stays deleted would begin again, invisible,
    with each span.
    """
    ordered = sorted(versions, key=_order)
    by_place: dict[tuple[str, int], list[RowVersion]] = {}
    for version in ordered:
        by_place.setdefault(version.place, []).append(version)
    return [each for each in ordered if each.was_visible or each is by_place[each.place][0]]


_T = TypeVar("_T")
_Trait: TypeAlias = Callable[[RowVersion], Hashable]
"""Returns the value by which versions are connected, or None if a version has no such value."""


def _place(version: RowVersion) -> Hashable:
    return version.place


def _row_id(version: RowVersion) -> Hashable:
    return version.row_id


def _key(version: RowVersion) -> Hashable:
    return version.key or None


def _key_and_values(version: RowVersion) -> Hashable:
    return version.key, version.match


@dataclass(slots=True, eq=False)
class _Chain:
    """A row that is being followed."""

    followed_by: FollowedBy
    versions: list[RowVersion] = field(default_factory=list)
    events: list[RowEvent] = field(default_factory=list)

    @property
    def last(self) -> RowVersion:
        return self.versions[-1]

    def weaken(self, trait: _Trait, version: RowVersion) -> None:
        """Note that a version was connected by a trait."""
        if trait in (_key_and_values, _key):
            self.followed_by = FollowedBy.KEYS if version.key else FollowedBy.VALUES

    def begin(self, version: RowVersion, kind: EventKind, candidates: int = 0) -> None:
        self.versions.append(version)
        self._record(kind, version.added, candidates)

    def end(self, candidates: int = 0) -> None:
        assert self.last.ended is not None
        kind = EventKind.DELETED if self.last.ended_by_delete else EventKind.REMOVED
        self._record(kind, self.last.ended, candidates)

    def _record(self, kind: EventKind, commit: int, candidates: int) -> None:
        number = len(self.versions) - 1
        self.events.append(RowEvent(kind=kind, commit=commit, version=number, candidates=candidates))


@dataclass(slots=True)
class _Linker:
    """All rows, those with a live version by the commit that ends it, and the ended ones by what identifies them."""

    chains: list[_Chain] = field(default_factory=list)
    live: dict[int | None, list[_Chain]] = field(default_factory=dict)
    live_keys: Counter[Hashable] = field(default_factory=Counter)
    ended: dict[tuple[_Trait, Hashable], list[_Chain]] = field(default_factory=dict)

    def link(self, versions: Iterable[RowVersion]) -> list[_Chain]:
        starts: dict[int, list[RowVersion]] = {}
        for version in versions:
            if version.was_visible:
                starts.setdefault(version.added, []).append(version)
            else:
                kind = EventKind.HIDDEN if version.added == BEFORE else EventKind.NEVER
                self._new_chain(version).begin(version, kind)
        ends = {v.ended for each in starts.values() for v in each if v.ended is not None}
        for commit in sorted(starts.keys() | ends):
            self._step(self.live.pop(commit, []), starts.get(commit, []))
        return self.chains

    def _new_chain(self, version: RowVersion) -> _Chain:
        chain = _Chain(FollowedBy.VALUES if version.row_id is None else FollowedBy.ROW_ID)
        if version.row_id is None and version.key:
            chain.followed_by = FollowedBy.KEYS
        self.chains.append(chain)
        return chain

    def _begin(self, chain: _Chain, version: RowVersion, kind: EventKind, candidates: int = 0) -> None:
        chain.begin(version, kind, candidates)
        self.live.setdefault(version.ended, []).append(chain)
        self.live_keys[_key(version)] += 1

    def _end(self, chain: _Chain, candidates: int = 0) -> None:
        chain.end(candidates)
        for trait in (_place, _row_id, _key):
            if (value := trait(chain.last)) is not None:
                self.ended.setdefault((trait, value), []).append(chain)

    def _step(self, ending: list[_Chain], starting: list[RowVersion]) -> None:
        """Connect the chains that end in a commit with the versions that begin in it."""
        self.live_keys.subtract(_key(chain.last) for chain in ending)
        for trait in (_place, _row_id, _key_and_values, _key):
            ending, starting = self._pair(ending, starting, trait)
        for chain in ending:
            self._end(chain)
        keys = Counter(map(_key, starting))
        earlier = [self._earlier(version, is_only=keys[_key(version)] == 1) for version in starting]
        for version, before in zip(starting, earlier, strict=True):
            if before is not None:
                self._begin(before, version, EventKind.RESTORED)
            else:
                kind = EventKind.PRESENT if version.added == BEFORE else EventKind.ADDED
                self._begin(self._new_chain(version), version, kind)

    def _pair(
        self, ending: list[_Chain], starting: list[RowVersion], trait: _Trait
    ) -> tuple[list[_Chain], list[RowVersion]]:
        """Connect chains and versions that agree in a trait, and return the others.

        If several agree, the chains end, and the versions begin chains of their own.
        """
        olds, news = _grouped(ending, lambda chain: trait(chain.last)), _grouped(starting, trait)
        both = (olds.keys() & news.keys()) - {None}
        for value in (value for value in news if value in both):
            is_certain = len(olds[value]) == len(news[value]) == 1
            is_equal = olds[value][0].last.match == news[value][0].match
            for chain in () if is_certain else olds[value]:
                self._end(chain, candidates=len(news[value]))
            for version in news[value]:
                chain = olds[value][0] if is_certain else self._new_chain(version)
                chain.weaken(trait, version)
                kind = EventKind.CARRIED if is_equal else EventKind.UPDATED
                self._begin(chain, version, kind, candidates=0 if is_certain else len(olds[value]))
        return (
            [chain for value, chains in olds.items() if value not in both for chain in chains],
            [version for value, versions in news.items() if value not in both for version in versions],
        )

    def _earlier(self, version: RowVersion, *, is_only: bool) -> _Chain | None:
        """Return the ended chain that a version continues after a gap, or None.

        A place or row id that returns is the same row. So is a key, unless other rows have or had the key.
        """
        key = _key(version)
        is_certain = is_only and not self.live_keys[key]
        for trait in (_place, _row_id, *([_key] if is_certain else [])):
            chains = self.ended.get((trait, trait(version)), [])
            if len(chains) == 1 and not (trait is _key and chains[0].events[-1].candidates):
                chain = chains[0]
                for each in (_place, _row_id, _key):
                    if chain in (indexed := self.ended.get((each, each(chain.last)), [])):
                        indexed.remove(chain)
                return chain
        return None


def _grouped(items: Iterable[_T], trait: Callable[[_T], Hashable]) -> dict[Hashable, list[_T]]:
    groups: dict[Hashable, list[_T]] = {}
    for item in items:
        groups.setdefault(trait(item), []).append(item)
    return groups
