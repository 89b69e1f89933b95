"""Files of old states that no longer exist: a vacuum deletes data files and vectors that the log still names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from harness.errors import counted
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.deletes import DatedDelete, DatedPositions, InlineVector, PositionDeleteFile, StoredVector
from harness.metadata.plan.lifetimes import Span
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass
from harness.trace.sentences import Wording

_MOST_SENTENCES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFile:
    """A file that no longer exists.

    Attributes:
        path: Its recorded path.
        span: When the file was live; for a delete, when it applied to the data file.
        data_file: For a vector or position delete file, the recorded path of the data file. None for a data file.
        hides_all: For a vector or position delete file, whether the data file was left out, because its deleted rows
            are unknown.
    """

    path: str
    span: Span
    data_file: str | None = None
    hides_all: bool = False


def without_lost_files(plan: PlannedScan) -> tuple[PlannedScan, tuple[LostFile, ...]]:
    """Return the plan without files that no longer exist, and these files.

    A vector that was replaced is left out, because the vector that replaced it covers its rows. If the newest vector of
    a data file is lost, the deleted rows of the data file are unknown, so the data file is left out.

    Args:
        plan: A plan with lifetimes.
    """
    lifetimes, positions = plan.lifetimes, plan.position_deletes
    assert lifetimes is not None
    existence = _Existence(plan)
    kept, lost, sets = list[int](), list[LostFile](), list(positions.sets)
    files = zip(*(plan.files.column(name).to_pylist() for name in ("path", "physical", "positions")), strict=True)
    for number, ((path, physical, place), span) in enumerate(zip(files, lifetimes.files, strict=True)):
        if not existence.has(physical):
            lost.append(LostFile(path=path, span=span))
            continue
        source = None if place is None else positions.source(place)
        deletes = source.deletes if isinstance(source, DatedPositions) else ()
        dead = [each for each in deletes if not existence.has_delete(each)]
        is_unknown = any(each.span.removed in (None, span.removed) for each in dead)
        lost += [
            LostFile(path=existence.delete(each).path, span=each.span, data_file=path, hides_all=is_unknown)
            for each in dead
        ]
        if is_unknown:
            continue
        if dead and isinstance(source, DatedPositions):
            rest = tuple(each for each in deletes if each not in dead)
            sets[place - positions.vectors.num_rows] = replace(source, deletes=rest)
        kept.append(number)
    remaining = replace(
        plan,
        files=plan.files.take(array_of(kept, plan.files.column("partition").type)),
        position_deletes=replace(positions, sets=tuple(sets)),
        lifetimes=replace(lifetimes, files=tuple(lifetimes.files[number] for number in kept)),
    )
    return remaining, tuple(lost)


@dataclass(slots=True)
class _Existence:
    """The existence of the files of a plan. Each file is looked up once."""

    plan: PlannedScan
    answers: dict[str, bool] = field(default_factory=dict)

    def has(self, physical: str) -> bool:
        if physical not in self.answers:
            self.answers[physical] = self.plan.storage.exists(physical)  # type: ignore[arg-type]  # paths of the plan
        return self.answers[physical]

    def delete(self, dated: DatedDelete) -> StoredVector | InlineVector | PositionDeleteFile:
        return self.plan.position_deletes.files[dated.source] if isinstance(dated.source, int) else dated.source

    def has_delete(self, dated: DatedDelete) -> bool:
        delete = self.delete(dated)
        return isinstance(delete, InlineVector) or self.has(delete.physical)


def lost_sentences(lost: Sequence[LostFile], wording: Wording) -> tuple[str, ...]:
    """Return a sentence for each file that no longer exists."""
    sentences = []
    for each in lost[:_MOST_SENTENCES]:
        start = wording.commit(each.span.added)
        end = "the end" if each.span.removed is None else wording.commit(each.span.removed)
        name = wording.file(each.path)
        match each:
            case LostFile(data_file=None):
                text = f"Data file {name}, live from {start} to {end}, no longer exists, so its rows are not shown."
            case LostFile(data_file=str(data), hides_all=True):
                text = f"Delete {name} of {wording.file(data)} no longer exists, so rows of that file are not shown."
            case LostFile(data_file=data):
                text = (
                    f"Delete {name} of {wording.file(data or '')} no longer exists, so rows of that file may have been "
                    f"deleted earlier than shown, from {start} on."
                )
        sentences.append(text)
    more = len(lost) - _MOST_SENTENCES
    return (*sentences, f"{counted(more, 'more file')} no longer exist.") if more > 0 else tuple(sentences)
