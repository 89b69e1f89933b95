"""Why no live row matches: for each live file, why a read skips it, or what happened to the matching rows in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.errors import counted
from harness.trace.model import CandidateFile, FileVerdict, MissingReport, RowVersion
from harness.trace.sentences import Wording

_MOST_ROWS = 3
"""The most deleted rows that the sentence of a file describes."""


def missing_report(
    files: Iterable[CandidateFile], versions: Sequence[RowVersion], wording: Wording, condition: str
) -> MissingReport:
    """Return the report on live files.

    Args:
        files: The live files, with what a read does with them and the false facts, but without rows and sentences.
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
    if file.verdict is not FileVerdict.READ and not versions:
        return f"{name} is {file.verdict.value}{facts}. It has no matching row."
    if file.verdict is not FileVerdict.READ:
        wrong = "; ".join(
            f"the row at position {each.position} has {each.column} = {each.value}, but {each.recorded}"
            for each in file.false
        )
        wrong = wrong or f"the row at position {versions[0].position} matches"
        return f"{name} is {file.verdict.value}{facts}, which is wrong: {wrong}."
    if not versions:
        return f"{name} is read. It has no matching row."
    reasons = [
        wording.delete(version, version.delete) for version in deleted[:_MOST_ROWS] if version.delete is not None
    ]
    more = f"; {counted(len(deleted) - _MOST_ROWS, 'more row')}" if len(deleted) > _MOST_ROWS else ""
    kept = [f"{counted(file.visible, 'visible row')}"] if file.visible else []
    lost = [f"{counted(len(deleted), 'deleted row')}: {'; '.join(reasons)}{more}"] if deleted else []
    return f"{name} is read. Matching rows: {', '.join([*kept, *lost])}."


def _facts(file: CandidateFile) -> str:
    if file.verdict is FileVerdict.BY_STATISTICS:
        texts: Mapping[str, str] = file.bounds
        return f" ({', '.join(f'{name} {text}' for name, text in texts.items())})" if texts else ""
    return "" if file.partition is None else f" {file.partition}"


def _interest(file: CandidateFile) -> int:
    """Return the order of files in a report: wrongly skipped files, files with rows, then the rest."""
    is_skipped, has_rows = file.verdict is not FileVerdict.READ, bool(file.visible or file.deleted)
    if is_skipped:
        return 0 if has_rows else 3
    return 1 if has_rows else 2


def _sentence(files: Sequence[CandidateFile], condition: str) -> str:
    hidden = [file for file in files if file.verdict is not FileVerdict.READ]
    wrong = sum(file.visible for file in hidden)
    visible = sum(file.visible for file in files) - wrong
    deleted = sum(file.deleted for file in files)
    total = counted(len(files), "live file")
    if wrong:
        skipped = counted(sum(bool(file.visible) for file in hidden), "file")
        matching = counted(wrong, "live row")
        return f"A read misses {matching} with {condition}, because wrong metadata skips {skipped}."
    if visible:
        return f"Nothing is missing: a read finds {counted(visible, 'row')} with {condition}."
    if deleted:
        rows = counted(deleted, "deleted row")
        return f"No live row matches {condition}: {total} have {rows} with it, and no others."
    return f"No live row matches {condition}: none of {total} has one."
