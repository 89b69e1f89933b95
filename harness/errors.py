"""All exceptions and warnings of harness: one class for each cause that a caller can act on.

    HarnessError
    ├── RequestError              the request cannot be fulfilled (bad SQL, an invalid option, conflicting options)
    │   ├── UnknownColumnError    a column that the schema does not have, or has more than once
    │   └── SnapshotNotFoundError a snapshot, time, branch, or tag that the table does not have
    ├── TableNotFoundError        there is no readable table at the location
    │   ├── IsAViewError          the metadata describes a view
    │   └── AmbiguousTableError   several metadata files could be the current one
    ├── InvalidTableError         the table breaks its format's specification
    │   ├── CorruptFileError      a metadata, data, or delete file cannot be decoded
    │   ├── CorruptDeleteError    a delete contradicts itself, or the data that it names
    │   └── SchemaMismatchError   a file's columns cannot be converted to the table's columns
    ├── MissingFileError          the metadata names a file that does not exist
    ├── OutsideTableError         the metadata names a file that the table may not read
    ├── StorageError              the storage or its client failed; a second attempt may succeed
    ├── UnsupportedError          the table is valid, but harness cannot read it; the message names the feature
    │   └── EncryptedTableError   the table is encrypted, and harness has no key
    ├── LimitError                a file exceeds a limit on memory or items; the message names the limit
    └── EngineError               an engine refused a query, or failed while it ran a plan

Finer causes (`CorruptManifest`, `MultipleDVs`, …) are texts in the attribute `cause`, for logs and tests. They are not
classes, because callers handle all causes of one class in the same way.

A message is one line: the problem and a remedy, followed by table, file, field, and rule in brackets. Messages of a
parser are followed by an excerpt that marks the position. `docs/rules` contains the text of each rule; `harness rule
iceberg 4.18` prints it.
"""

from __future__ import annotations

import html
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from traceback import extract_tb
from typing import NoReturn

# Code that serves both formats (data files, engines, columns by name) cites Iceberg rules. An error about a Delta table
# must cite the corresponding Delta rule, or none. `HarnessError.within` looks the rule up here.


_DELTA_RULES: Mapping[str, str | None] = {
    "iceberg 1.22": "delta T28",  # unknown types
    "iceberg 2.14": None,  # Avro codecs
    "iceberg 2.19": None,  # encryption, which the Delta protocol does not define
    "iceberg 4.11": None,  # position delete files
    "iceberg 4.19": "delta D9",
    "iceberg 4.25": None,  # equality deletes
    "iceberg 5.1": "delta T11",
    "iceberg 5.2": "delta T7",
    "iceberg 5.3": "delta V1",
    "iceberg 5.6": "delta T11",
    "iceberg 5.10": "delta T8",
    "iceberg 5.12": "delta T23",
    "iceberg 5.21": "delta T2",
    "iceberg 6.14": "delta T17",
    "iceberg 6.15": "delta T26",
    "iceberg 7.2": "delta E9",
    "iceberg 7.3": "delta R12",  # Delta has Parquet data files only
    "iceberg 7.4": "delta R12",
    "iceberg 7.5": "delta R12",
    "iceberg 7.6": "delta L45",
}


def rule_in_format(rule: str | None, format: str | None) -> str | None:
    """Return the number of a rule in the table's format.

    An Iceberg rule without an equivalent in the Delta protocol becomes None for a Delta table.
    """
    if format != "delta" or rule is None or not rule.startswith("iceberg "):
        return rule
    return _DELTA_RULES.get(rule)


PASSWORD = re.compile(
    r"(?<=://)[^\s/@?#'\":\[]*:(?!\d{0,5}(?:[/?#\s]|$))(?:(?!://)[^\s'\"<>])*@"  # no port follows; up to the last @
)
"""A user name and password before the host of a URL. The password may contain characters that are not valid in a URL.
"""
_URL_QUERY = re.compile(r"[?&][^\s'\"<>=?&]*=[^\s'\"<>]*")
_SIGNATURE = re.compile(
    r"[?&](?:x-(?:amz|goog)-|awsaccesskeyid|sig|signature|token|access_token)[\w-]*=[^\s'\"<>]*", re.IGNORECASE
)
"""The signature parameters of a URL's query, also if only the end of the URL is shown."""
_TOKEN = re.compile(r"\b(bearer|basic)\s+(?=\S*\d)[\w.~+/=-]{8,}|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?", re.IGNORECASE)
"""The value of an `Authorization` header that a server repeats in its answer, or a JSON web token."""
_MIN_SECRET_LENGTH = 4
_FIRST_WORDS_LENGTH = 200
_CONTEXT_FIELDS = ("message", "table", "file", "field")
_PACKAGE = __file__.removesuffix("errors.py")
_MAX_CONTEXT_LENGTH, _CUT_LENGTH = 4096, 300
"""The length at which a context field is cut, and the length to which it is cut.

Both are in characters. Anything longer than the first cannot be a path.
"""


class HarnessError(Exception):
    """Base class of all errors that harness raises deliberately.

    Args:
        message: The problem in one sentence, with the actual and the expected value, and the remedy if there is one.
        cause: A name for the cause that is finer than the class, for example `MultipleDVs`. None for the class name
            without `Error`.
        table: The table's location or name.
        snapshot: The id or version of the snapshot that was being read.
        file: The file that caused the error, as "recorded (physical)" if the two paths differ.
        field: The field or column that caused the error.
        rule: The number of the rule that was broken, for example "iceberg 4.18".
        options: Names of Python arguments in the message, so that a command can replace them by its own option names.
        excerpt: Lines of a text with a mark below the position of the error. Empty if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: str | None = None,
        table: str | None = None,
        snapshot: int | str | None = None,
        file: str | None = None,
        field: str | None = None,
        rule: str | None = None,
        options: Sequence[str] = (),
        excerpt: str = "",
    ) -> None:
        super().__init__(without_secrets(message))
        self.message = " ".join(message.split())
        self.cause = cause or type(self).__name__.removesuffix("Error")
        self.table = table
        self.snapshot = snapshot
        self.file = file
        self.field = field
        self.rule = rule
        self.options = tuple(options)
        self.excerpt = excerpt

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(
            name, without_secrets(value) if name in _CONTEXT_FIELDS and isinstance(value, str) else value
        )

    def __str__(self) -> str:
        """Return the message and its context on one line of printable characters, followed by the excerpt."""
        context = [
            f"{label} {value if len(str(value)) <= _MAX_CONTEXT_LENGTH else f'{str(value)[:_CUT_LENGTH]}…'}"
            for label, value in (
                ("table", self.table),
                ("snapshot", self.snapshot),
                ("file", self.file),
                ("field", self.field),
                ("rule", self.rule),
            )
            if value is not None
        ]
        text = f"{self.message} [{self.cause}; {', '.join(context)}]" if context else f"{self.message} [{self.cause}]"
        return visible(text) + (f"\n{visible_lines(self.excerpt)}" if self.excerpt else "")

    def _render_traceback_(self) -> list[str]:
        """Return the lines for IPython: the user's own frames down to the call of harness, and the error."""
        outside = takewhile(lambda frame: not frame.filename.startswith(_PACKAGE), extract_tb(self.__traceback__))
        frames = [frame for frame in outside if "IPython" not in PurePath(frame.filename).parts]
        cells = ("ipykernel_", "<ipython-input")
        places = ["cell" if any(mark in frame.filename for mark in cells) else frame.filename for frame in frames]
        lines = [f"{place}, line {frame.lineno}: {frame.line}" for place, frame in zip(places, frames, strict=True)]
        return [*lines, f"{type(self).__name__}: {self}"]

    def within(
        self,
        *,
        table: str | None = None,
        snapshot: int | str | None = None,
        file: str | None = None,
        format: str | None = None,
    ) -> HarnessError:
        """Add context that the raising code did not know, and return this error. Context that is already set stays.

        Args:
            table: The table's location or name.
            snapshot: The id or version of the snapshot.
            file: The file that caused the error.
            format: The table's format. For `delta`, the Iceberg rules cited by code for both formats become the
                corresponding Delta rules.

        Returns:
            The same error object.
        """
        self.table = self.table if self.table is not None else table
        self.snapshot = self.snapshot if self.snapshot is not None else snapshot
        self.file = self.file if self.file is not None else file
        self.rule = rule_in_format(self.rule, format)
        return self

    def with_option_names(self, spell: Callable[[str, str | None], str]) -> HarnessError:
        """Replace Python argument names in the message by the option names of a command, and return this error.

        Args:
            spell: A function from an argument's name and the text after `=` in the message (None if there is none) to
                the text to show.

        Returns:
            The same error object.
        """
        for option in self.options:
            written = re.compile(rf"(?<![\w.-]){option}(?:=('[^']*'|\w*))?(?!\w)")
            # mypy infers no type for a lambda with a default.
            self.message = written.sub(lambda match, name=option: spell(name, match[1]), self.message)  # type: ignore[misc]
        self.options = ()
        return self


class HarnessWarning(UserWarning):
    """A property of a table that is valid, or does not change its rows, but that its owner should know about."""


class OutsideTableWarning(HarnessWarning):
    """Files outside the table's roots are read. If that is intended, add their directories to `allowed_roots`."""


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without parts that may be secret.

    A user name with a password, and the query, which may hold a signature, are removed from URLs.
    (`abfss://container@account` names a container and stays.) Tokens of an `Authorization` header are replaced by `…`.

    Args:
        text: The text.
        secrets: Further secrets, which are replaced by `…` if they have at least 4 characters.

    Returns:
        The text that may be shown.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH:
            text = text.replace(secret, "…")
    if "://" in text:
        text = PASSWORD.sub("", _URL_QUERY.sub("", text))
    return _TOKEN.sub(lambda match: f"{match[1]} …" if match[1] else "…", _SIGNATURE.sub("", text))


def first_words(text: str, secrets: Iterable[str] = ()) -> str:
    """Return up to 200 characters of another program's message on one line, without parts that may be secret.

    Args:
        text: The message.
        secrets: Further secrets, as for `without_secrets`.
    """
    line = without_secrets(" ".join(text.split()), secrets)
    return line if len(line) <= _FIRST_WORDS_LENGTH else line[:_FIRST_WORDS_LENGTH] + "…"


def raise_from(error: HarnessError, cause: BaseException, secrets: Iterable[str] = ()) -> NoReturn:
    """Raise a harness error in place of another library's error, which becomes its cause without any secrets.

    Args:
        error: The error to raise.
        cause: The error of the library.
        secrets: Texts to remove from the library's error.

    Raises:
        HarnessError: Always.
    """
    secrets = tuple(secrets)
    error.message = without_secrets(error.message, secrets)
    error.args = tuple(without_secrets(str(arg), secrets) for arg in error.args)
    try:
        raise error from _redacted(cause, secrets)
    finally:
        error.__context__ = None


def _redacted(error: BaseException, secrets: Sequence[str], visited: frozenset[int] = frozenset()) -> BaseException:
    """Return a copy of an error with the same class name and text, but without secrets and attributes.

    Args:
        error: The error.
        secrets: Texts to remove.
        visited: Identities of the errors before this one in the chain, because the causes of an error may form a cycle.
    """
    if isinstance(error, HarnessError):
        return error
    kind, visited = type(error), visited | {id(error)}
    inner = error.__cause__ or error.__context__
    if kind.__module__ == "builtins" and inner is None and without_secrets(repr(error), secrets) == repr(error):
        return error
    copy_type = type(kind.__name__, (Exception,), {"__module__": kind.__module__})
    copy: BaseException = copy_type(without_secrets(str(error), secrets))
    if inner is not None and id(inner) not in visited:
        copy.__cause__ = _redacted(inner, secrets, visited)
    return copy.with_traceback(error.__traceback__)


def warn(sentence: str, category: type[HarnessWarning] = HarnessWarning) -> None:
    """Issue a warning that points to the line of the user's code that called harness."""
    # From Python 3.12 on, `skip_file_prefixes` of `warnings.warn` does the same.
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "harness":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(visible(without_secrets(sentence)), category, stacklevel=depth)


class RequestError(HarnessError):
    """The request is wrong: invalid SQL, options that exclude each other, or an unknown option or value."""


class UnknownColumnError(RequestError):
    """A column is not in the schema, or its name is ambiguous. The message lists similar names."""


class SnapshotNotFoundError(RequestError):
    """The requested snapshot, version, time, branch, or tag does not exist. The message lists the existing ones."""


class TableNotFoundError(HarnessError):
    """There is no table of a known format at the location. Check the path, or pass the metadata file."""


class IsAViewError(TableNotFoundError):
    """The metadata describes a view. Query the tables that the view reads."""


class AmbiguousTableError(TableNotFoundError):
    """More than one metadata file could be the current one. Pass the metadata file."""


class InvalidTableError(HarnessError):
    """The table breaks its format's specification. No rows are returned, because they would be a guess."""


def untrusted_table_error(sentence: str, table: str) -> InvalidTableError:
    """Return the error for an irregularity that is accepted with a warning in a trusted table.

    Args:
        sentence: The text of the warning.
        table: The table's location.

    Returns:
        The error, with the cause `Distrusted`.
    """
    return InvalidTableError(f"{sentence}; in an untrusted table, this is an error", cause="Distrusted", table=table)


class CorruptFileError(InvalidTableError):
    """A file of the table cannot be decoded: it is truncated, damaged, or lacks a required field."""


class CorruptDeleteError(InvalidTableError):
    """A delete file or deletion vector is damaged or contradicts the data. Ignoring it would restore deleted rows."""


class SchemaMismatchError(InvalidTableError):
    """A file's column cannot be converted to the table's column: wrong type, a null, or a conflicting value."""


class MissingFileError(HarnessError):
    """The metadata names a file that does not exist. Restore the file, or map its path with `path_map`."""


class OutsideTableError(HarnessError):
    """A path leads out of the table's roots. Add its directory to `allowed_roots`, or map the path with `path_map`."""


class StorageError(HarnessError):
    """The storage failed: a broken connection, a disk error, or fewer bytes than it announced. Try again."""


class UnsupportedError(HarnessError):
    """The table is valid, but uses a feature that harness cannot read. The message names the feature."""


class EncryptedTableError(UnsupportedError):
    """The table, or one of its files, is encrypted. Harness has no keys."""


class LimitError(HarnessError):
    """A file exceeds a limit on memory, items, or nesting. If you trust the table, raise the named limit."""


class EngineError(HarnessError):
    """An engine refused a query, or failed while it ran a plan. The engine's own error is the `__cause__`."""


# A terminal, or the page of a CI job, interprets some characters: they move the cursor, change a title, or reverse the
# text (C0, C1, and DEL; format characters; line and paragraph separators). Therefore harness passes everything that it
# prints through one of these functions. Data formats (CSV, Parquet, Arrow) are escaped only on a terminal.


_NOT_ASCII_PRINTABLE = re.compile(r"[^\n -~]")
_SCRIPTS_WITH_JOINERS = "\u0600-\u1cff\ua800-\uabff\U00010a00-\U00011fff"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
JOINER = re.compile(
    f"(?<=[{_SCRIPTS_WITH_JOINERS}])[\u200c\u200d](?=[{_SCRIPTS_WITH_JOINERS}])|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
)
"""Zero-width joiners that shape letters of Persian, Hindi, and similar scripts, or that combine emoji."""


def visible(text: str) -> str:
    r"""Return `text` on one line of printable characters. The result is always valid UTF-8.

    Other characters are escaped, for example as `\n`, `\x1b`, or `\u202e`. Joiners between the letters or emoji that
    they shape stay.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in JOINER.finditer(text)}
    return "".join(
        c if c.isprintable() or place in joiners else c.encode("unicode_escape").decode("ascii")
        for place, c in enumerate(text)
    )


def visible_lines(text: str) -> str:
    """Return `text` with its line feeds, and each line escaped as by `visible`."""
    return "\n".join(map(visible, text.split("\n")))


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the right form: `1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_text(size: int) -> str:
    """Return a number of bytes for people to read: `812 bytes`, `72.1 KiB`, `63.8 MiB`."""
    power = min(max(size.bit_length() - 1, 0) // 10, 4)
    if power == 0:
        return f"{size} byte{'' if size == 1 else 's'}"
    return f"{size / 1024**power:,.1f} {'KMGT'[power - 1]}iB"


def html_text(value: object) -> str:
    """Return a value as the escaped text of an HTML element or attribute, on one line."""
    return html.escape(visible(str(value)))


def html_lines(text: str) -> str:
    """Return `text` as the escaped text of an HTML element, with its line feeds."""
    return html.escape(visible_lines(text))


def json_text(value: object, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    r"""Return `value` as JSON with unprintable characters written as `\uXXXX`. Its meaning does not change.

    Raises:
        ValueError: The value contains a number that JSON cannot represent, for example NaN.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return _escaped(text)


def json_lines(text: str) -> str:
    r"""Return a JSON text with unprintable characters written as `\uXXXX`.

    Line feeds, which only occur between values, stay.
    """
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    # A character above U+FFFF becomes its two surrogates; a lone surrogate stays a surrogate.
    return _NOT_ASCII_PRINTABLE.sub(lambda m: m[0] if m[0].isprintable() else json.dumps(m[0])[1:-1], text)
