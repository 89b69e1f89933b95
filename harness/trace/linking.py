"""Following rows from file to file: which version of a row continues which.

A commit that rewrites a file ends the versions in the old file and begins versions in the new file. Versions belong to
one row if they have the same row id; without row ids, if they have the same keys; and without keys, if all values are
equal. If several equal rows ended and began in one commit, their connection is not recorded. Then each of them is a row
of its own, and the events state the number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace

from harness.metadata.plan.lifetimes import BEFORE
from harness.storage.records import dataclass
from harness.trace.model import EventKind, FollowedBy, RowEvent, RowVersion, TracedRow


def follow(versions: Iterable[RowVersion]) -> tuple[TracedRow, ...]:
    """Return the rows to which versions belong, without sentences, ordered by their first version."""
    groups: dict[tuple[FollowedBy, Hashable], list[RowVersion]] = {}
    for version in _without_repeats(versions):
        if version.row_id is not None:
            identity: tuple[FollowedBy, Hashable] = (FollowedBy.ROW_ID, version.row_id)
        elif version.key:
            identity = (FollowedBy.KEYS, version.key)
        else:
            identity = (FollowedBy.VALUES, version.match)
        groups.setdefault(identity, []).append(version)
    chains = [chain for (followed_by, _), group in groups.items() for chain in _Linker(followed_by).link(group)]
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


@dataclass(slots=True, eq=False)
class _Chain:
    """A row that is being followed."""

    followed_by: FollowedBy
    versions: list[RowVersion] = field(default_factory=list)
    events: list[RowEvent] = field(default_factory=list)

    @property
    def last(self) -> RowVersion:
        return self.versions[-1]

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
    """The chains of one identity: all of them, those with a live version, and the ended ones."""

    followed_by: FollowedBy
    chains: list[_Chain] = field(default_factory=list)
    live: list[_Chain] = field(default_factory=list)
    ended: list[_Chain] = field(default_factory=list)

    def link(self, versions: Sequence[RowVersion]) -> list[_Chain]:
        starts: dict[int, list[RowVersion]] = {}
        for version in versions:
            if version.was_visible:
                starts.setdefault(version.added, []).append(version)
            else:
                self._new_chain().begin(version, EventKind.NEVER)
        ends = {v.ended for each in starts.values() for v in each if v.ended is not None}
        for commit in sorted(starts.keys() | ends):
            ending = [chain for chain in self.live if chain.last.ended == commit]
            self.live = [chain for chain in self.live if chain.last.ended != commit]
            self._step(ending, starts.get(commit, []))
        return self.chains

    def _new_chain(self) -> _Chain:
        chain = _Chain(self.followed_by)
        self.chains.append(chain)
        return chain

    def _step(self, ending: list[_Chain], starting: list[RowVersion]) -> None:
        """Connect the chains that end in a commit with the versions that begin in it."""
        ending, starting = self._pair(ending, starting, lambda version: version.place, EventKind.CARRIED)
        ending, starting = self._pair(ending, starting, lambda version: version.match, EventKind.CARRIED)
        if self.followed_by is not FollowedBy.VALUES:
            ending, starting = self._pair(ending, starting, lambda _: None, EventKind.UPDATED)
        earlier = self._earlier(starting)
        for chain in ending:
            chain.end()
        self.ended += ending
        for version, before in zip(starting, earlier, strict=True):
            chain = before or self._new_chain()
            first = EventKind.PRESENT if version.added == BEFORE else EventKind.ADDED
            chain.begin(version, EventKind.RESTORED if before else first)
            self.live.append(chain)

    def _pair(
        self,
        ending: list[_Chain],
        starting: list[RowVersion],
        trait: Callable[[RowVersion], Hashable],
        kind: EventKind,
    ) -> tuple[list[_Chain], list[RowVersion]]:
        """Connect chains and versions that agree in a trait, and return the others.

        If several agree, the chains end, and the versions begin chains of their own.
        """
        olds: dict[Hashable, list[_Chain]] = {}
        news: dict[Hashable, list[RowVersion]] = {}
        for chain in ending:
            olds.setdefault(trait(chain.last), []).append(chain)
        for version in starting:
            news.setdefault(trait(version), []).append(version)
        both = olds.keys() & news.keys()
        for value in (value for value in news if value in both):
            is_certain = len(olds[value]) == len(news[value]) == 1
            for chain in () if is_certain else olds[value]:
                chain.end(candidates=len(news[value]))
                self.ended.append(chain)
            for version in news[value]:
                chain = olds[value][0] if is_certain else self._new_chain()
                chain.begin(version, kind, candidates=0 if is_certain else len(olds[value]))
                self.live.append(chain)
        return (
            [chain for value, chains in olds.items() if value not in both for chain in chains],
            [version for value, versions in news.items() if value not in both for version in versions],
        )

    def _earlier(self, starting: Sequence[RowVersion]) -> list[_Chain | None]:
        """Return for each version the ended chain that it continues after a gap, or None."""
        by_place: dict[tuple[str, int], list[_Chain]] = {}
        for chain in self.ended if starting else ():
            by_place.setdefault(chain.last.place, []).append(chain)
        places = (by_place.get(version.place, []) for version in starting)
        result = [chains[0] if len(chains) == 1 else None for chains in places]
        is_certain = len(starting) == len(self.ended) == 1 and not self.live and not self.ended[0].events[-1].candidates
        if is_certain and self.followed_by is not FollowedBy.VALUES:
            result = [self.ended[0]]
        continued = {id(chain) for chain in result}
        self.ended = [chain for chain in self.ended if id(chain) not in continued]
        return result
