"""Options that several commands share, and the arguments of `open_table` that they set."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import click

import harness
from harness.cli import terminal
from harness.cli.parameters import Argument, Option
from harness.errors import TableNotFoundError
from harness.metadata.catalogs.catalog import parse_name
from harness.metadata.model.times import parse_moment
from harness.metadata.plan.read_options import Planning, Prune, Ratified
from harness.storage import limits
from harness.storage.gate import Outside
from harness.storage.paths import expanded, is_path, may_be_name
from harness.storage.records import dataclass
from harness.untrusted.bounds import Bounds, check_waived

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table

OPENING = "Opening tables"
"""The help section for options that open a table."""


_opening = functools.partial(Option, panel=OPENING)

Location: TypeAlias = Annotated[
    str, Argument(metavar="TABLE", help="A table directory, a metadata file, or a name in a catalog.")
]
CatalogName: TypeAlias = Annotated[
    str | None,
    _opening(
        metavar="NAME",
        help="Find tables by name in this catalog: a catalog in PyIceberg's configuration, or a warehouse directory.",
    ),
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    _opening(
        metavar="KEY=VALUE",
        help="An option of the object store or file system (fsspec). Repeatable. true, false, null, "
        "numbers, and JSON objects and lists keep their type; other values are text. Double quotes "
        "force text: 'secret=\"123\"'. A dot sets a nested option: client_kwargs.endpoint_url=URL. "
        "Options of another store: s3://bucket={...}.",
    ),
]
Verbose: TypeAlias = Annotated[
    bool,
    _opening("-v", "--verbose", help="Log each request to a store and each skipped file to standard error."),
]
EndOption: TypeAlias = Annotated[
    str | None,
    Option("--to", metavar="WHEN", help="The end of the range, which is included. By default the current state."),
]
ColumnsOption: TypeAlias = Annotated[str | None, Option(metavar="A,B", help="Read only these columns.")]
NamedTables: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--table",
        metavar="[NAME=]TABLE",
        help="Make a table available in SQL, as NAME or by the name of its directory. Repeatable.",
    ),
]
Where: TypeAlias = Annotated[str | None, Option(metavar="SQL", help="Read only rows that match this condition.")]
PlanningOption: TypeAlias = Annotated[
    Planning,
    _opening(
        help="Who plans the reads of a table in an Iceberg REST catalog: client (harness, from the table's metadata "
        "files), server (the catalog's server; no metadata file is read), or auto (as the catalog says)."
    ),
]
Untrusted: TypeAlias = Annotated[
    bool,
    _opening(
        "--untrusted",
        help="Read untrusted tables in a process with limited resources and without access to the network,"
        " other files, or secrets.",
    ),
]


_FLAG_MEANINGS = {
    "allow_version_guess": "If a directory has no version hint, use the highest version.",
    "allow_checkpoint_only": "Read a Delta table whose newest checkpoint lacks its own commit.",
    "allow_duplicate_files": "If a data file is listed twice, read it twice.",
    "lenient_delete_partition": "Apply position deletes to files of any partition, by path.",
    "enforce_retention": "Refuse versions of a Delta table that are older than its retention of deleted files.",
    "published_only": "Read only published commits of a catalog-managed Delta table, which may be an older version.",
}
FLAGS = tuple(_FLAG_MEANINGS)
"""Settings that are true or false."""
MEANINGS = {
    "path_map.OLD": "The location of files whose recorded path begins with OLD: path_map.s3://old/orders=/data/orders.",
    "outside": "For files outside of a table's roots, warn (the default) or refuse.",
    "prune": "What planning may skip: nothing (off), files by partition (partition), also files by "
    "statistics (files), or also manifests (all, the default).",
    **_FLAG_MEANINGS,
    "max_version": "The latest version of a catalog-managed Delta table, as reported by the catalog.",
    "ratified": "With max_version, a commit that the catalog ratified: the name of its staged file, or "
    "VERSION=FILE for a copy of a commit that only the catalog has. Repeatable.",
    "format_hint": "The table format, iceberg or delta, if the location does not show it.",
    "limits.NAME": "A limit on metadata, for tables that you trust, for example limits.document_bytes=1_000_000_000.",
    "bounds.NAME": "With --untrusted, a limit on the process, for example bounds.memory_bytes=8_000_000_000.",
    "waived": "With --untrusted, also run if the system cannot enforce this limit, for example network. Repeatable.",
}
"""The meaning of each setting."""
Set: TypeAlias = Annotated[
    list[str] | None,
    _opening(
        "--set",
        metavar="NAME=VALUE",
        help="Set a rare option of harness.open_table by its Python name, for example outside=refuse. "
        f"Repeatable. Names: {', '.join(MEANINGS)}.",
    ),
]
_LISTS = ("ratified", "waived")
_PATH_MAP = "path_map."
_CHOICES = {
    "outside": tuple(each.value for each in Outside),
    "prune": tuple(each.value for each in Prune),
    "format_hint": ("iceberg", "delta"),
}
"""The allowed values of settings that have only a few."""
SETTINGS = (
    "path_map.OLD",
    *(name for name in MEANINGS if "." not in name),
    *(f"limits.{name}" for name in limits.Limits.__slots__),
    *(f"bounds.{name}" for name in Bounds.__slots__),
)
"""The names that `--set` accepts."""
_SAME_NAMES = (
    "at", "catalog", "columns", "dialect", "engine", "keys", "last", "level", "mode", "planning", "sample_rows", "to",
    "untrusted", "verbose", "where",
)  # fmt: skip
OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in _SAME_NAMES},
    **{"storage_options": "--storage-option", "allowed_roots": "--allow-root", "from_": "--from"},
}
"""Dedicated options by the name of the Python argument."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of `--set`.

    Attributes:
        opening: Arguments of `open_table`.
        bounds: Bounds of a worker, or None for the defaults.
        waived: Limits that a worker does not need to enforce.
    """

    opening: Mapping[str, Any]
    bounds: Bounds | None
    waived: frozenset[str]

    @classmethod
    def parse(cls, texts: Sequence[str] | None, *, untrusted: bool) -> Settings:
        """Parse texts of the form NAME=VALUE.

        Args:
            texts: The values of `--set`.
            untrusted: True if a worker runs. Otherwise settings of a worker are refused.

        Raises:
            click.BadParameter: A setting is unknown, malformed, or repeated.
        """
        values_by_name: dict[str, list[str]] = {}
        for text in texts or ():
            name, separator, value = text.partition("=")
            if name not in SETTINGS and not name.startswith(_PATH_MAP):
                raise click.BadParameter(f"--set {name}: there is no such name; {_hint(name)}")
            if not separator:
                raise click.BadParameter(f"--set {name}: expected {name}=VALUE")
            if name in values_by_name and name not in _LISTS:
                raise click.BadParameter(f"--set {name} is given twice")
            values_by_name.setdefault(name, []).append(value)
        opening = {
            name: _value(name, values)
            for name, values in values_by_name.items()
            if "." not in name and name != "waived"
        }
        mapped, limited, bounded = (
            {
                name.partition(".")[2]: value
                for name, (value, *_) in values_by_name.items()
                if name.startswith(f"{group}.")
            }
            for group in ("path_map", "limits", "bounds")
        )
        if "" in mapped:
            raise click.BadParameter("--set path_map.: expected path_map.OLD=NEW")
        if mapped:
            opening["path_map"] = mapped
        if limited:
            opening["limits"] = limits.parse_numbers(limits.Limits, "limit", limited)
        bounds = limits.parse_numbers(Bounds, "bound", bounded) if bounded else None
        settings = cls(opening, bounds, check_waived(values_by_name.get("waived", [])))
        if not untrusted and (settings.bounds or settings.waived):
            raise click.BadParameter("--set bounds.NAME=VALUE and --set waived=NAME require --untrusted")
        return settings


def _value(name: str, values: list[str]) -> object:
    """Parse the value of an argument of `open_table`."""
    if name == "ratified":
        return list(map(_ratified_commit, values))
    text, expected = values[0], "true or false"
    if name in FLAGS and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if name == "max_version":
        if text.isdecimal():
            return int(text)
        expected = "a version, a whole number of at least 0"
    elif name in _CHOICES:
        if text in _CHOICES[name]:
            return text
        *first, last = _CHOICES[name]
        expected = f"{', '.join(first)} or {last}"
    raise click.BadParameter(f"--set {name}={text}: expected {expected}")


def _ratified_commit(text: str) -> Ratified:
    """Parse a ratified commit: the name of its file, or VERSION=FILE, where FILE has its content."""
    version, separator, path = text.partition("=")
    if not separator or not version.isdecimal():
        return text
    try:
        return int(version), Path(path).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"--set ratified={text}: {error.strerror}") from error


def _hint(name: str) -> str:
    """Suggest the nearest name, or list the names."""
    python = name.lstrip("-").replace("-", "_")
    if python in OPTIONS:
        return f"give {OPTIONS[python]}"
    near = [each for each in SETTINGS if each.partition(".")[2] == python]
    near = near or difflib.get_close_matches(python, SETTINGS, 1, 0.7)
    if near:
        return f"did you mean {near[0]}?"
    group = [each for each in SETTINGS if each.startswith(f"{name.partition('.')[0]}.")]
    return f"there are {', '.join(group or MEANINGS)}"


@dataclass(slots=True, kw_only=True)
class OpeningOptions:
    """Options for opening tables. `context` is the command's context."""

    context: click.Context
    catalog: CatalogName = None
    storage_option: StorageOption = None
    allowed_roots: Annotated[
        list[str] | None,
        _opening("--allow-root", metavar="DIR", help="Also let tables read files below this path or URI. Repeatable."),
    ] = None
    planning: PlanningOption = Planning.AUTO
    verbose: Verbose = False
    untrusted: Untrusted = False
    set_: Set = None

    def __post_init__(self) -> None:
        if self.verbose:
            terminal.enable_debug_logs()
        self.arguments()  # report malformed options even if no table is opened

    def open(self, location: str, *, planning: str | None = None) -> Table:
        """Return the table at `location`. A name may begin with the catalog's name, as printed by `harness list`.

        Args:
            location: The location or name.
            planning: Replaces the value of `--planning`, if it is not None.

        Raises:
            click.BadParameter: An option is wrong.
            HarnessError: As for `harness.open_table`.
        """
        arguments = {"catalog": self.catalog, **self.arguments()}
        if planning is not None:
            arguments["planning"] = planning
        try:
            return harness.open_table(location, **arguments)
        except TableNotFoundError:
            first, _, rest = location.partition(".")
            if not rest or first.casefold() != (self.catalog or "").casefold():
                raise
        return harness.open_table(rest, **arguments)

    def snapshot(self, location: str, at: str | None) -> Snapshot:
        """Return the table's snapshot for `--at`."""
        parse_moment(at)  # report a malformed time before the table is opened
        return self.open(location).snapshot(at)

    def arguments(self) -> dict[str, Any]:
        """Return arguments of `open_table`, without the catalog."""
        return {
            "storage_options": storage_options(self.storage_option) or None,
            "allowed_roots": self.allowed_roots or (),
            "planning": self.planning.value,
            "untrusted": self.untrusted,
            **Settings.parse(self.set_, untrusted=self.untrusted).opening,
        }

    def roots(self) -> list[str]:
        """Return the locations that tables may read in addition to their own."""
        path_map = self.arguments().get("path_map", {})
        return [*path_map.values(), *(self.allowed_roots or ())]


AtOption: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="WHEN",
        help="Read this snapshot: an id or version, a time in ISO 8601 (UTC without an offset), a branch, "
        "or a tag. Or explicitly: snapshot=ID, timestamp=TIME, ref=NAME.",
    ),
]


def option_for(name: str, value: str | None) -> str:
    """Return the command line spelling of a Python argument, with its value if there is one."""
    value = None if value is None else value.strip("'")
    if name in OPTIONS:
        return f"{OPTIONS[name]} {value or ''}".rstrip()
    is_set = name in {each.partition(".")[0] for each in SETTINGS}
    if f"{name}." == _PATH_MAP:
        return "--set path_map.OLD=NEW"
    if value is None:
        return (f"--set {name}=true" if name in FLAGS else f"--set {name}") if is_set else name
    return f"--set {name}={value.lower()}" if is_set else f"{name}={value}"


def pairs(values: list[str] | None, option: str) -> dict[str, str]:
    """Parse texts of the form KEY=VALUE into a mapping, in order. Raise click.BadParameter for a repeated key."""
    result: dict[str, str] = {}
    for number, text in enumerate(values or (), 1):
        key, separator, value = text.partition("=")
        if not separator or not key:
            # The text is not shown, because it may contain a secret.
            raise click.BadParameter(f"{option} number {number} is not of the form NAME=VALUE")
        if key in result:
            raise click.BadParameter(f"{option} {key!r} is given twice")
        result[key] = value
    return result


def named_table(text: str) -> tuple[str, str]:
    """Parse a value of `--table`: `NAME=TABLE`, or a table alone, whose own name is used.

    Raises:
        click.BadParameter: The name or the table is missing, or the table's own name contains a dot.
    """
    from harness.snapshot import short_table_name

    name, separator, location = text.partition("=")
    if separator and not is_path(name):
        if not (name and location):
            raise click.BadParameter(f"--table {text!r}: expected NAME=TABLE or TABLE")
        return name, location
    name = parse_name(text)[-1] if may_be_name(text) else short_table_name(expanded(text))
    if not name or "." in name or '"' in name:
        raise click.BadParameter(f"--table {text!r}: {name!r} cannot be a name in SQL; choose one with NAME={text}")
    return name, text


def named_tables(values: list[str] | None) -> dict[str, str]:
    """Return the tables of `--table` by name. Raises the same errors as `named_table`, and for a repeated name."""
    tables: dict[str, str] = {}
    for name, location in map(named_table, values or ()):
        if name in tables:
            raise click.BadParameter(f"--table {name} is given twice; choose names with NAME=TABLE")
        tables[name] = location
    return tables


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"([^,]*)|([^,]*))(,?)(.*)', re.DOTALL)
"""A quoted name followed by text that is not allowed there, or a bare name; then the rest."""


def names(text: str | None, option: str) -> list[str] | None:
    """Parse comma-separated column names. A name may be in double quotes, with `""` for a quote.

    Raises:
        click.BadParameter: The text is malformed.
    """
    if text is None:
        return None
    parsed: list[str] = []
    rest, comma = text, ","
    while comma and (parts := _NAME.fullmatch(before := rest)):
        quoted, junk, bare, comma, rest = parts.groups()
        if junk and junk.strip():
            raise click.BadParameter(f"{option}: {junk.strip()!r} follows a quoted name")
        if bare and bare.startswith('"'):
            raise click.BadParameter(f"{option}: the quote in {before.lstrip()!r} is not closed")
        name = bare.strip() if quoted is None else quoted.replace('""', '"')
        if not name:
            raise click.BadParameter(f"{option} {text!r} contains an empty name")
        parsed.append(name)
    return parsed


_OPTION = "--storage-option"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
"""A number without an exponent, because `12e34` is more likely part of a key."""


def storage_options(values: Sequence[str] | None) -> dict[str, object]:
    """Parse the options of a file system into typed and nested values by key.

        true, false, null         as in JSON; the text `false` would count as true
        12, 1.5                   a number
        {"a": 1}, ["a"]           JSON
        "12"                      a JSON string in double quotes: always text
        anything else             text

    A dot in a key creates a nested option: `client_kwargs.endpoint_url=URL` means `client_kwargs={"endpoint_url":
    "URL"}`. A key that is a URI is not split: `s3://my.bucket={"key": "…"}`.

    Raises:
        click.BadParameter: A text is not of the form KEY=VALUE, has invalid JSON, repeats a key, or sets a key below a
            plain value. The message shows no value, because it may be a secret.
    """
    options: dict[str, object] = {}
    for number, text in enumerate(values or (), 1):
        key, separator, value = text.partition("=")
        names = [key] if "://" in key else key.split(".")
        if not separator or not all(names):
            raise click.BadParameter(f"{_OPTION} number {number} is not of the form NAME=VALUE")
        _put(options, names, parse_value(value, f"{_OPTION} {key!r}"), key)
    return options


def parse_value(text: str, option: str) -> object:
    """Parse a text as described for `storage_options`. `option` names the option in errors.

    Raises:
        click.BadParameter: The text is invalid JSON.
    """
    is_json = text in ("true", "false", "null") or _NUMBER.fullmatch(text) or text[:1] in ("{", "[", '"')
    if not is_json:
        return text
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise click.BadParameter(
            f"{option}: a value that begins with {text[0]} must be JSON; put other text in double quotes"
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _put(options: dict[str, Any], names: Sequence[str], value: object, key: str) -> None:
    """Set a nested value, keeping other values under the same keys."""
    *above, last = names
    level = options
    for name in above:
        level = level.setdefault(name, {})
        if not isinstance(level, dict):
            raise click.BadParameter(
                f"{_OPTION} {key!r}: {name!r} already has a value, so it cannot have nested options"
            )
    if isinstance(value, dict) and isinstance(level.get(last), dict):
        for name, inner in value.items():
            _put(level[last], [name], inner, f"{key}.{name}")
    elif last in level:
        raise click.BadParameter(f"{_OPTION} {key!r} is given twice")
    else:
        level[last] = value
