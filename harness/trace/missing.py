"""Why no live row matches: for each live file, why a read skips it, or what happened to the matching rows in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.errors import counted
from harness.trace.model import SKIPPED, CandidateFile, FileDecision, MissingReport, RowVersion
from harness.trace.sentences import Wording

_MOST_ROWS = 3
"""The most deleted rows that the sentence of a file describes."""


def missing_report(
    files: Iterable[CandidateFile], versions: Sequence[RowVersion], wording: Wording, condition: str
) -> MissingReport:
    """Return the report on live files.

    Args:
        files: The live files, with the decisions on them and the false facts, but without rows and sentences.
        versions: The versions of matching rows in all files, including skipped files.
        wording: The words for commits and files.
        condition: The condition as SQL.
    """
    by_file: dict[str, list[RowVersion]] = {}
    for version in versions:
        if version.removed is None:
            by_file.setdefault(version.file, []).append(version)
    described = [_described(file, by_file.get(file.path, ()), wording) for file in files]
    ordered = sorted(described, key=_interest)
    return MissingReport(files=tuple(ordered), sentence=_sentence(ordered, condition))


def _described(file: CandidateFile, versions: Sequence[RowVersion], wording: Wording) -> CandidateFile:
    deleted = [version for version in versions if version.ended is not None]
    counts = replace(file, visible=len(versions) - len(deleted), deleted=len(deleted))
    return replace(counts, sentence=_file_sentence(counts, versions, deleted, wording))


def _file_sentence(
    file: CandidateFile, versions: Sequence[RowVersion], deleted: Sequence[RowVersion], wording: Wording
) -> str:
    name, facts = wording.file(file.path), _facts(file)
    if file.decision is FileDecision.LOST:
        return f"{name} cannot be read: it or one of its delete files no longer exists."
    if file.decision in SKIPPED and not versions:
        return f"{name} is {file.decision.value}{facts}. It has no matching row."
    if file.decision in SKIPPED:
        wrong = "; ".join(
            f"the row at position {each.position} has {each.column} = {each.value}, but {each.recorded}"
            for each in file.false
        )
        wrong = wrong or f"the row at position {versions[0].position} matches"
        return f"{name} is {file.decision.value}{facts}, which is wrong: {wrong}."
    if not versions:
        return f"{name} is read. It has no matching row."
    phrases = [_matching(file.visible, "visible")] if file.visible else []
    if deleted:
        clauses = [wording.delete(each, each.delete) for each in deleted[:_MOST_ROWS] if each.delete is not None]
        more = [f"{len(deleted) - _MOST_ROWS:,} more"] if len(deleted) > _MOST_ROWS else []
        phrases.append(f"{_matching(len(deleted), 'deleted')}: {'; '.join([*clauses, *more])}")
    return f"{name} is read. {', and '.join(phrases)}."


def _matching(number: int, state: str) -> str:
    return f"{counted(number, 'matching row')} {'is' if number == 1 else 'are'} {state}"


def _facts(file: CandidateFile) -> str:
    if file.decision is FileDecision.BY_STATISTICS:
        texts: Mapping[str, str] = file.bounds
        return f" ({', '.join(f'{name} {text}' for name, text in texts.items())})" if texts else ""
    return "" if file.partition is None else f" {file.partition}"


def _interest(file: CandidateFile) -> int:
    """Return the order of files in a report: wrongly skipped files, files with rows, then the rest."""
    is_skipped, has_rows = file.decision in SKIPPED, bool(file.visible or file.deleted)
    if is_skipped:
        return 0 if has_rows else 3
    return 1 if has_rows else 2


def _sentence(files: Sequence[CandidateFile], condition: str) -> str:
    hidden = [file for file in files if file.decision in SKIPPED]
    wrong = sum(file.visible for file in hidden)
    visible = sum(file.visible for file in files) - wrong
    deleted = sum(file.deleted for file in files)
    if wrong:
        skipped = counted(sum(bool(file.visible) for file in hidden), "file")
        return f"A read misses {_live(wrong)} {condition}, because wrong metadata makes it skip {skipped}."
    if visible:
        return f"Nothing is missing: a read finds {_live(visible)} {condition}."
    if not files:
        return f"No live row matches {condition}: the table has no files."
    lost = sum(file.decision is FileDecision.LOST for file in files)
    number, limit = len(files) - lost, " that can be read" if lost else ""
    holders = f"live file{limit} holds" if number == 1 else f"{number:,} live files{limit} hold"
    if deleted:
        held = f"{counted(deleted, 'matching row')}, which {'is' if deleted == 1 else 'are'} deleted"
    else:
        held = "no matching row"
    return f"No live row matches {condition}. The {holders} {held}."


def _live(number: int) -> str:
    return f"{counted(number, 'live row')} that {'matches' if number == 1 else 'match'}"
