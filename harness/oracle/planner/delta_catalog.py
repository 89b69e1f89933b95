"""Which commits are of a table that its catalog manages, and which version is its latest (delta L31, frontier F4)."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import MissingFileError, RequestError, UnsupportedError
from harness.oracle.planner.delta_log import Log, State
from harness.oracle.planner.delta_schema import is_catalog_managed
from harness.oracle.planner.request import Request
from harness.storage.listings import Entry
from harness.storage.paths import join
from harness.storage.stores import Storage

_STAGED = "_staged_commits"


def known(log: Log, request: Request, storage: Storage) -> Log:
    """The log as far as it is known which of its commits are of the table.

    Raises:
        MissingFileError: a commit that the catalog ratified is nowhere.
    """
    if request.answer is not None:
        return _answered(log, request, storage)
    readable = log.readable()
    if not request.published_only or not readable:
        return log
    last = readable[-1]
    return _until(log, last + 1 if last + 1 in log.commits else last)


def check_known(latest: State, request: Request) -> None:
    """Refuses a table that its catalog manages and that nobody was asked about, and the reverse.

    Raises:
        UnsupportedError, RequestError: frontier F4.3, F4.5.
    """
    managed = is_catalog_managed(latest)
    if managed and request.answer is None and not request.published_only:
        message = "A catalog manages the table, and was not asked"
        raise UnsupportedError(message, cause="CatalogManaged", table=request.location, rule="frontier F4.3")
    if not managed and request.answer is not None:
        message = "There is a catalog's answer, and no catalog manages the table"
        raise RequestError(message, cause="CatalogAnswer", table=request.location, rule="frontier F4.5")


def _answered(log: Log, request: Request, storage: Storage) -> Log:
    assert request.answer is not None
    commits, held = dict(log.commits), dict(log.held)
    staged = {entry.name: entry for entry in storage.entries(join(log.root, "_delta_log", _STAGED))}
    for commit in request.answer.ratified:
        if commit.content is not None:
            held[commit.version] = commit.content
            commits[commit.version] = Entry(f"{commit.version:020}.json", len(commit.content), None)
        elif commit.name in staged:
            entry = staged[commit.name]
            commits[commit.version] = replace(entry, name=f"{_STAGED}/{entry.name}")
        elif commit.version not in commits:
            message = f"The ratified commit of version {commit.version} is not there"
            file = log.path(f"{_STAGED}/{commit.name}")
            raise MissingFileError(message, cause="StagedCommitMissing", file=file, rule="frontier F4.4")
    return _until(replace(log, commits=dict(sorted(commits.items())), held=held), request.answer.max_version)


def _until(log: Log, version: int) -> Log:
    return replace(
        log,
        commits={v: entry for v, entry in log.commits.items() if v <= version},
        checkpoints=tuple(each for each in log.checkpoints if each[0] <= version),
        latest=version,
    )
