"""Options that several commands share, and what they mean for `open_table`."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

import harness
from harness.cli import terminal
from harness.cli.help import OPENING
from harness.cli.option_texts import storage_options
from harness.cli.settings import FLAGS, OPTIONS, SETTINGS, Settings
from harness.metadata.plan.read_options import Prune
from harness.storage.gate import Outside
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.table import Table


_NAMED = inspect.Parameter.KEYWORD_ONLY


class Document(enum.Enum):
    """Forms of a printed description."""

    TEXT = "text"
    JSON = "json"


_opening = functools.partial(typer.Option, rich_help_panel=OPENING)

Location: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="A table directory, a metadata file, or a name in a catalog.")
]
CatalogName: TypeAlias = Annotated[
    str | None,
    _opening(
        "--catalog",
        metavar="NAME",
        help="Find tables by name in this catalog: one of PyIceberg's configuration, or a warehouse directory.",
    ),
]
Format: TypeAlias = Annotated[
    Document | None, typer.Option("--format", help="Print text for people, the default, or a JSON document.")
]
PathMap: TypeAlias = Annotated[
    list[str] | None,
    _opening("--path-map", metavar="OLD=NEW", help="Replace a prefix of the recorded paths. Repeatable."),
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    _opening(
        "--storage-option",
        metavar="KEY=VALUE",
        help="An option of the file system (fsspec), repeatable. true, false, null, numbers, JSON "
        "objects and lists are taken as such, other values as text; in double quotes a value is "
        "always text: 'secret=\"123\"'. A dot goes into an object: client_kwargs.endpoint_url=URL. "
        "For another store than the table's: s3://bucket={...}.",
    ),
]
CacheDir: TypeAlias = Annotated[
    str | None,
    _opening(
        "--cache-dir",
        metavar="DIR",
        help="Keep decoded metadata here for the next time. [default: the directory in HARNESS_CACHE_DIR]",
    ),
]
Verbose: TypeAlias = Annotated[
    bool, _opening("--verbose", help="Tell on standard error each request of a store, and each skipped file.")
]
Columns: TypeAlias = Annotated[
    str | None, typer.Option("--columns", metavar="A,B", help="Read these columns only, with commas between.")
]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="Read only rows for which this condition holds.")
]


Set: TypeAlias = Annotated[
    list[str] | None,
    _opening(
        "--set",
        metavar="NAME=VALUE",
        help="Set a rare option of harness.open_table by its name in Python, such as "
        "allow_version_guess=true or limits.document_bytes=1_000_000_000. Repeatable.",
    ),
]


Untrusted: TypeAlias = Annotated[
    bool,
    _opening(
        "--untrusted",
        help="Read tables of strangers: in a process without a network, other files or secrets, within bounds.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningOptions:
    """Options for opening tables."""

    catalog: CatalogName = None
    storage_option: StorageOption = None
    path_map: PathMap = None
    allowed_roots: Annotated[
        list[str] | None,
        _opening("--allow-root", metavar="DIR", help="Let tables read files here too, a path or URI. Repeatable."),
    ] = None
    outside: Annotated[
        Outside,
        _opening("--outside", help="Read files that a table names outside of it with a warning, or refuse them."),
    ] = Outside.WARN
    prune: Annotated[Prune, _opening("--prune", help="Skip nothing, files only, or manifests too.")] = Prune.ALL
    cache_dir: CacheDir = None
    verbose: Verbose = False
    untrusted: Untrusted = False
    set_: Set = None

    def __post_init__(self) -> None:
        Settings.of(self.set_).check_trust(untrusted=self.untrusted)
        if self.verbose:
            terminal.say_more()
        self.arguments()  # what is malformed is said where no table is opened, too

    def open(self, location: str) -> Table:
        """The table at `location`.

        Raises:
            typer.BadParameter: a pair is not of the form OLD=NEW, or the file of a commit cannot be read.
            HarnessError: see `harness.open_table`.
        """
        return harness.open_table(location, catalog=self.catalog, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Arguments of `open_table` without the catalog. Raises as `open`."""
        return {
            "path_map": pairs(self.path_map, "--path-map") or None,
            "storage_options": storage_options(self.storage_option) or None,
            "prune": self.prune.value,
            "allowed_roots": self.allowed_roots or (),
            "outside": self.outside.value,
            "untrusted": self.untrusted,
            "cache_dir": self.cache_dir,
            **Settings.of(self.set_).opening,
        }

    def roots(self) -> list[str]:
        """The places that tables may read besides their own locations.

        Raises:
            typer.BadParameter: a pair is not of the form OLD=NEW.
        """
        return [*pairs(self.path_map, "--path-map").values(), *(self.allowed_roots or ())]


At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="WHEN",
        help="Read this snapshot: an id or version, a time in ISO 8601 (UTC if without an offset), a branch or a tag; "
        "or, written out, snapshot=ID, timestamp=TIME, ref=NAME.",
    ),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of each group in place of the parameter of its type.

    So each option is declared once, in its group, whichever commands have it.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{option.name: given.pop(option.name) for option in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    options = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            of_group = get_type_hints(groups[name], include_extras=True)
            options += [
                inspect.Parameter(field.name, _NAMED, default=field.default, annotation=of_group[field.name])
                for field in dataclasses.fields(groups[name])
            ]
        else:
            options.append(parameter.replace(kind=_NAMED, annotation=hints[name]))
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {option.name: option.annotation for option in options}
    del run.__wrapped__  # typer would look through it
    return run


def spelled(name: str, value: str | None) -> str:
    """A Python argument, with its value if there is one, as the command's option."""
    value = None if value is None else value.strip("'")
    if name in OPTIONS:
        return f"{OPTIONS[name]} {value or ''}".rstrip()
    is_set = name in {each.partition(".")[0] for each in SETTINGS}
    if value is None:
        return (f"--set {name}=true" if name in FLAGS else f"--set {name}") if is_set else name
    return f"--set {name}={value.lower()}" if is_set else f"{name}={value}"


def pairs(values: list[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping, in the order given. The first `=` separates: a value may hold more of them.

    Raises:
        typer.BadParameter: no `=`, an empty key, or a key that is given twice.
    """
    result: dict[str, str] = {}
    for number, text in enumerate(values or (), 1):
        key, separator, value = text.partition("=")
        if not separator or not key:
            # The text itself is not shown: it may hold a secret.
            raise typer.BadParameter(f"{option} number {number} is not of the form NAME=VALUE")
        if key in result:
            raise typer.BadParameter(f"{option} {key!r} is given twice")
        result[key] = value
    return result
