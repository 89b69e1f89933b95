"""Every way in which harness can refuse, one class per cause that a caller can act on.

    HarnessError
    ├── RequestError              the caller asked for something that cannot be (bad SQL, unknown column, two selectors)
    │   ├── UnknownColumnError    a column that the chosen schema does not have, or has more than once
    │   └── SnapshotNotFoundError a snapshot, time, branch or tag that the table does not have
    ├── TableNotFoundError        nothing readable at the location
    │   ├── IsAViewError          the metadata is a view's
    │   └── AmbiguousTableError   several candidates, none of them certain
    ├── InvalidTableError         the table breaks its format's specification
    │   ├── CorruptFileError      a metadata, data or delete file cannot be decoded
    │   ├── CorruptDeleteError    a delete contradicts itself, or the data that it names
    │   └── SchemaMismatchError   a file's columns cannot become the table's
    ├── MissingFileError          the metadata names a file that is not there
    ├── OutsideTableError         the metadata names a file that the table may not read
    ├── StorageError              storage failed, or its client did; the same read may do later
    ├── UnsupportedError          legal, and harness does not read it; the message names the feature
    │   └── EncryptedTableError   legal, and harness holds no key
    ├── LimitError                a file asks for more memory than it may; the message names the limit
    └── EngineError               an engine refused a query, or failed while it ran a plan

There are many finer causes (`CorruptManifest`, `MultipleDVs`, ...). They are the `cause` attribute, text for logs and
tests, not classes, because a caller does the same about all causes of one class.
A message is one line: the problem and what to do, then table, file, field and rule in brackets. Below that of a parser
stands the place in its text. What a rule says stands
in `docs/rules`; `harness rule iceberg 4.18` prints it.
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

# Numbers of rules, where code that serves both formats breaks one.
#
# Such code (data files, engines, columns by name) cites Iceberg's number. An error about a Delta table must cite
# Delta's, or none: `HarnessError.within` asks here.


_DELTA_RULES: Mapping[str, str | None] = {
    "iceberg 1.22": "delta T28",  # types that are not known
    "iceberg 2.14": None,  # codecs of Avro
    "iceberg 2.19": None,  # encryption, which Delta does not speak of
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
    "iceberg 7.3": "delta R12",  # of data files, Delta has Parquet only
    "iceberg 7.4": "delta R12",
    "iceberg 7.5": "delta R12",
    "iceberg 7.6": "delta L45",
}


def rule_in_format(rule: str | None, format: str | None) -> str | None:
    """The rule as a table of that format has it; a rule of Iceberg's that has no like in Delta is None there."""
    if format != "delta" or rule is None or not rule.startswith("iceberg "):
        return rule
    return _DELTA_RULES.get(rule)


PASSWORD = re.compile(
    r"(?<=://)[^\s/@?#'\":\[]*:(?!\d{0,5}(?:[/?#\s]|$))(?:(?!://)[^\s'\"<>])*@"  # what is no port, up to the last @
)
"""A user with a password, before the host of a URL. Passwords may have signs that a URL has no place for."""
_URL_QUERY = re.compile(r"[?&][^\s'\"<>=?&]*=[^\s'\"<>]*")
_SIGNATURE = re.compile(
    r"[?&](?:x-(?:amz|goog)-|awsaccesskeyid|sig|signature|token|access_token)[\w-]*=[^\s'\"<>]*", re.IGNORECASE
)
"""Parts of a signed query, also where only the end of a URL is shown."""
_TOKEN = re.compile(r"\b(bearer|basic)\s+(?=\S*\d)[\w.~+/=-]{8,}|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?", re.IGNORECASE)
"""A header `Authorization` that a server repeats, and a JSON web token."""
_MIN_SECRET_LENGTH = 4
_CONTEXT_FIELDS = ("message", "table", "file", "field")
_PACKAGE = __file__.removesuffix("errors.py")
_MAX_CONTEXT_LENGTH, _CUT_LENGTH = 4096, 300
"""Characters of a place in an error: what is longer, and so no path, is cut."""


class HarnessError(Exception):
    """Base of all errors that harness raises on purpose.

    Args:
        message: one sentence: what is wrong, with got and expected, and what to do where that is known.
        cause: a name for what is wrong, finer than the class, such as `MultipleDVs`.
        table: the table's location or name.
        snapshot: id or version of the snapshot that was being read.
        file: the file at fault; "recorded (physical)" where the two differ.
        field: the field or column at fault.
        rule: the number of the rule that was broken, such as "iceberg 4.18".
        options: the Python arguments that the message names, so that a command can say its own options instead.
        excerpt: lines of a text that the message is about, with a mark below the place.
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
        """Return the message and its places on one line of printable characters, above the excerpt."""
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
        """The lines that IPython shows: the user's own, down to the call of harness, and the error."""
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
        """This error with the places filled in that the raising code could not know; what is set stays.

        format: the table's; code for both formats cites Iceberg's rules, which become those of Delta.
        """
        self.table = self.table if self.table is not None else table
        self.snapshot = self.snapshot if self.snapshot is not None else snapshot
        self.file = self.file if self.file is not None else file
        self.rule = rule_in_format(self.rule, format)
        return self

    def with_option_names(self, spell: Callable[[str, str | None], str]) -> HarnessError:
        """This error with its options as a command knows them.

        spell: how an option is written, given its name in Python and what stands behind `=`, if anything does.
        """
        for option in self.options:
            written = re.compile(rf"(?<![\w.-]){option}(?:=('[^']*'|\w*))?(?!\w)")
            self.message = written.sub(lambda match, name=option: spell(name, match[1]), self.message)  # type: ignore[misc]
        self.options = ()
        return self


class HarnessWarning(UserWarning):
    """Something about a table that is legal, or harmless to its rows, and that its owner should know."""


class OutsideTableWarning(HarnessWarning):
    """Files outside of the table's roots are read. Name their directories with `allowed_roots` if that is right."""


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text for people, without what may be secret in it.

    URLs have no user with a password, and no query, where signatures are; `abfss://container@account` names a
    container, and stays. Tokens of a header `Authorization` become `…`, and so do `secrets`, which the caller knows.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH:
            text = text.replace(secret, "…")
    if "://" in text:
        text = PASSWORD.sub("", _URL_QUERY.sub("", text))
    return _TOKEN.sub(lambda match: f"{match[1]} …" if match[1] else "…", _SIGNATURE.sub("", text))


def raise_from(error: HarnessError, cause: BaseException, secrets: Iterable[str] = ()) -> NoReturn:
    """Raise an error of harness in place of one of another library, which stays as its cause without secrets.

    Args:
        error: the error to raise.
        cause: the error of the library.
        secrets: texts that may be in the library's error, and must not be in the cause.
    """
    secrets = tuple(secrets)
    error.message = without_secrets(error.message, secrets)
    error.args = tuple(without_secrets(str(arg), secrets) for arg in error.args)
    try:
        raise error from _redacted(cause, secrets)
    finally:
        error.__context__ = None


def _redacted(error: BaseException, secrets: Sequence[str], visited: frozenset[int] = frozenset()) -> BaseException:
    """Return an error of the same name and text, without secrets and without the attributes of a client's error.

    seen: identities of the errors that led to this one, since a chain may be a circle.
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
    """Gives a warning that points to the line of the user's code which called harness."""
    # `skip_file_prefixes` of warnings.warn would do, from Python 3.12 on.
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "harness":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(visible(without_secrets(sentence)), category, stacklevel=depth)


class RequestError(HarnessError):
    """The request itself is wrong: unparsable SQL, selectors that exclude each other, an unknown option."""


class UnknownColumnError(RequestError):
    """A column is not in the chosen schema, or its name is ambiguous there. The message lists near names."""


class SnapshotNotFoundError(RequestError):
    """The asked snapshot, version, time, branch or tag does not exist (any more). The message says what does."""


class TableNotFoundError(HarnessError):
    """No table of a known format is at the location. Check the path, or name the metadata file itself."""


class IsAViewError(TableNotFoundError):
    """The metadata describes a view. Query the tables that it names instead."""


class AmbiguousTableError(TableNotFoundError):
    """More than one metadata file could be the current one. Name the metadata file itself."""


class InvalidTableError(HarnessError):
    """The table breaks its specification. Nothing is returned, because any rows would be a guess."""


def untrusted_table_error(sentence: str, table: str) -> InvalidTableError:
    """The error about an untrusted table, of which something is not so, or could be read by a guess alone.

    sentence: what would be a warning about any other table.
    """
    return InvalidTableError(f"{sentence}; of an untrusted table that is an error", cause="Distrusted", table=table)


class CorruptFileError(InvalidTableError):
    """A file of the table cannot be decoded: truncated, damaged, or without a field that it must have."""


class CorruptDeleteError(InvalidTableError):
    """A delete file or deletion vector is damaged or contradicts the data. Ignoring it would bring rows back."""


class SchemaMismatchError(InvalidTableError):
    """A column of a file cannot be turned into the table's column (type, requiredness, conflicting value)."""


class MissingFileError(HarnessError):
    """A file that the metadata names is not in storage. Restore it, or map its path with `path_map`."""


class OutsideTableError(HarnessError):
    """A path leads out of the table's roots. Allow its directory with `allowed_roots`, or map it with `path_map`."""


class StorageError(HarnessError):
    """Storage failed while it was asked: a broken connection, a disk's error, fewer bytes than it said. Try again."""


class UnsupportedError(HarnessError):
    """The table is legal but uses something that harness does not read. The message names it."""


class EncryptedTableError(UnsupportedError):
    """The table, or one of its files, is encrypted. Harness holds no keys."""


class LimitError(HarnessError):
    """A file asks for more memory, items or levels than it may. Raise the named limit if you trust the table."""


class EngineError(HarnessError):
    """An engine refused a query, or failed on a plan. The engine's own error is the `__cause__`."""


# Text of a table such that whoever shows it obeys none of it.
#
# A terminal, or the page of a CI job, acts on some characters: it moves the cursor, changes a title, turns the text's
# direction (C0, C1 and DEL, the format characters, line and paragraph separators). Whatever harness prints passes one
# of these functions; formats that carry data as it is (CSV, Parquet, Arrow) do so everywhere but on a terminal.


_NOT_ASCII_PRINTABLE = re.compile(r"[^\n -~]")
_SCRIPTS_WITH_JOINERS = "\u0600-\u1cff\ua800-\uabff\U00010a00-\U00011fff"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
JOINER = re.compile(
    f"(?<=[{_SCRIPTS_WITH_JOINERS}])[\u200c\u200d](?=[{_SCRIPTS_WITH_JOINERS}])|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
)
"""Characters that join or part the letters of Persian, Hindi and their like, or join emoji to a picture."""


def visible(text: str) -> str:
    r"""`text` on one line of printable characters, the others as `\n`, `\x1b`, `\u202e`; so it is valid UTF-8 too.

    Joiners stay between letters or emoji that they shape.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in JOINER.finditer(text)}
    return "".join(
        c if c.isprintable() or place in joiners else c.encode("unicode_escape").decode("ascii")
        for place, c in enumerate(text)
    )


def visible_lines(text: str) -> str:
    """`text` with its line feeds as they are, and each line as `visible` has it."""
    return "\n".join(map(visible, text.split("\n")))


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_text(size: int) -> str:
    """A number of bytes for people: `812 bytes`, `72.1 KiB`, `63.8 MiB`."""
    power = min(max(size.bit_length() - 1, 0) // 10, 4)
    if power == 0:
        return f"{size} byte{'' if size == 1 else 's'}"
    return f"{size / 1024**power:,.1f} {'KMGT'[power - 1]}iB"


def html_text(value: object) -> str:
    """Any value as the text of an HTML element or attribute, on one line."""
    return html.escape(visible(str(value)))


def html_lines(text: str) -> str:
    """`text` as the text of an HTML element, with its line feeds."""
    return html.escape(visible_lines(text))


def json_text(value: object, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    r"""`value` as JSON, unprintable characters as `\uXXXX`: the same document to whoever parses it.

    Raises:
        ValueError: a number that JSON has not, such as NaN.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return _escaped(text)


def json_lines(text: str) -> str:
    r"""JSON text, its unprintable characters but line feeds as `\uXXXX`; line feeds stand between values only."""
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    # A character beyond the first 2^16 becomes its two surrogates; a lone surrogate stays that.
    return _NOT_ASCII_PRINTABLE.sub(lambda m: m[0] if m[0].isprintable() else json.dumps(m[0])[1:-1], text)
