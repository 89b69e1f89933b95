"""Tables in the documentation that are generated from the code, for example the options of each command.

    python programs/documentation/tables.py

This writes the tables that are in the repository: the scores of readers in the README and docs/index.md, from
docs/suite/readers.md, the format of scenarios, and the functions on Spark. `build.py` writes all other tables.
"""

import ast
import dataclasses
import inspect
import re
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.cli.app import COMMANDS, imported
from harness.cli.options import MEANINGS, OPENING
from harness.cli.parameters import Command
from harness.engines.spark.transpile.functions import nested, numbers, registry, times
from harness.engines.spark.transpile.functions import text as texts
from harness.engines.spark.transpile.functions.registry import Signature
from harness.metadata.plan.trust import CLAIMS, WRITER_FAULTS, WriterFault
from harness.storage.limits import Limits
from harness.storage.option_names import CONNECTION, NAMES, StoreKind
from harness.suite.rereads.shapes import SHAPES
from harness.suite.scenarios.delta.history import OPERATIONS as DELTA_OPERATIONS
from harness.suite.scenarios.iceberg.history import OPERATIONS as ICEBERG_OPERATIONS
from harness.suite.scenarios.model import SELECTORS, Expectation
from harness.writing.delta import builder as delta
from harness.writing.iceberg import builder as iceberg

ROOT = Path(__file__).parents[2]
_TABLE = runpy.run_path(str(ROOT / "tests/properties/drawn/functions.py"))
SUPPORTED, KINDS = _TABLE["SUPPORTED"], _TABLE["FunctionKind"]
_PARAMETERS = {
    registry.ANY_TEXT: "VARCHAR or a type with the same text on both engines",
    registry.BIGINT: "BIGINT",
    registry.BLOB: "BLOB",
    registry.DECIMAL: "DECIMAL",
    registry.FLOATING: "FLOAT or DOUBLE",
    registry.INTEGER: "INTEGER",
    registry.LIST: "list",
    registry.LITERAL_PATTERN: "a VARCHAR literal that is not empty",
    registry.LITERAL_TEXT: "a VARCHAR literal that is not empty",
    registry.MAP: "map",
    registry.MOMENT: "DATE or TIMESTAMP",
    registry.NUMBER: "DOUBLE",
    registry.NUMERIC: "number",
    registry.PLACE: "BIGINT",
    registry.VARCHAR: "VARCHAR",
    registry.WHOLE: "integer",
    nested.LISTS: "list of lists",
    nested.ORDERED_LIST: "list",
    numbers.WIDENED: "FLOAT or DOUBLE",
    texts.OR_EMPTY: "VARCHAR or a type with the same text on both engines",
    times.MICROS: "DATE or TIMESTAMP",
}
"""The types of parameters in DuckDB's notation."""


def commands() -> dict[str, Command]:
    """Return the commands of `harness` by name. Commands of groups come last."""
    return {name: imported(name) for name in sorted(COMMANDS, key=lambda name: " " in name)}


def options_table(command: Command) -> str:
    """Return the arguments and options of a command as a Markdown table. The options for opening tables are one row."""
    shared = len(_opening(commands()["plan"]))
    opening = options if len(options := _opening(command)) == shared else []
    rows = [_row(command, parameter) for parameter in command.params if parameter not in opening]
    if opening:
        rows.append("| … | The [options for opening tables](#opening-tables). |")
    return "\n".join(["| Argument or option | Meaning |", "|---|---|", *rows]) + "\n"


def _opening(command: Command) -> list[Any]:
    return [each for each in command.params if command.declared[each.name or ""].panel == OPENING]


def with_tables(page: str) -> str:
    """Return the page of commands with its tables, between `<!-- options of … -->` and `<!-- end -->`."""
    plan = commands()["plan"]
    marks = re.findall("<!-- options of ([a-z ]+) -->", page)
    if marks != list(commands()):
        raise ValueError(f"docs/reference/cli.md must have a section for each of these commands: {list(commands())}")
    page = _written(page, "options for opening tables", "Option", (_row(plan, each) for each in _opening(plan)))
    settings = (f"| `{name}` | {_plain(meaning)} |" for name, meaning in MEANINGS.items())
    page = _written(page, "names for --set", "Name", settings)
    return re.sub(
        r"(<!-- options of ([a-z ]+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{options_table(commands()[match[2]])}\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


def _written(page: str, mark: str, head: str, rows: Iterable[str]) -> str:
    return _between(page, mark, "\n".join([f"| {head} | Meaning |", "|---|---|", *rows]))


def with_shapes(page: str) -> str:
    """Return the page about rereads with its table of shapes."""
    needs = {shape.name: "" if shape.needs is None else f"`{shape.needs}`" for shape in SHAPES}
    rows = [f"| `{shape.name}` | {shape.read} | {shape.result} | {needs[shape.name]} |" for shape in SHAPES]
    return _between(
        page, "shapes", "\n".join(["| Shape | Read | Expected result | Option |", "|---|---|---|---|", *rows])
    )


def _between(page: str, mark: str, text: str) -> str:
    """Return a page with a text between `<!-- mark -->` and `<!-- end -->`.

    Raises:
        ValueError: the page has no such mark.
    """
    before, start, rest = page.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not end:
        raise ValueError(f"a page has no place for a table: <!-- {mark} --> and <!-- end -->")
    return f"{before}{start}\n{text}\n\n{end}{after}"


def _row(command: Command, parameter: Any) -> str:
    declared, choices = command.declared[parameter.name], getattr(parameter.type, "choices", ["VALUE"])
    option = parameter.opts[0].startswith("-")
    value = declared.metavar or "|".join(str(getattr(each, "value", each)) for each in choices)
    words = [
        *([", ".join(parameter.opts)] if option else []),
        *([] if getattr(parameter, "is_flag", False) else [value]),
    ]
    cell = code_cell(" ".join(words).replace("<", "&lt;"))
    default = parameter.to_info_dict()["default"]
    default_text = "" if default in (None, False, "") or parameter.required else f" Default: `{default}`."
    meaning = declared.help if declared.help.endswith(".") else f"{declared.help}."
    return f"| {cell} | {_plain(meaning + default_text).replace('<', '&lt;')} |"


def with_stores(page: str) -> str:
    """Return the page of object stores with the options of each service, followed by those of every service."""
    lines = []
    for title, kind in (*((kind.value, kind) for kind in StoreKind), ("All of them", StoreKind.S3)):
        names = [name for name in NAMES[kind] if (name in CONNECTION) == (title == "All of them")]
        lines += [f"**{title}**", "", "| Option | Also known as |", "|---|---|"]
        lines += [f"| `{name}` | {', '.join(f'`{other}`' for other in NAMES[kind][name])} |" for name in names]
        lines.append("")
    return _between(page, "options of stores", "\n".join(lines[:-1]))


def with_trust(page: str) -> str:
    """Return the page about trust with its two tables."""
    claims = [
        ("Statement", "Column types", "Trusted", "Reason"),
        *((c.statement.value, _types(c.types), c.trust.value, c.reason) for c in CLAIMS),
    ]
    lies = [
        ("Writer", "Fault", "Column types", "Guard", "Source"),
        *(
            (_releases(e), f"{e.statement.value}: {e.wrong}", _types(e.types), e.guard, f"<{e.source}>")
            for e in WRITER_FAULTS
        ),
    ]
    for name, rows in (("claims", claims), ("lies", lies)):
        head, *body = ["| " + " | ".join(row) + " |" for row in rows]
        text = "\n".join([head, "|---" * len(rows[0]) + "|", *body])
        page = _between(page, name, text)
    return page


def _types(types: tuple[type, ...]) -> str:
    return ", ".join(each.__name__.removesuffix("Type").lower() for each in types) or "any"


def _releases(fault: WriterFault) -> str:
    return fault.writer if fault.until is None else f"{fault.writer} before {fault.until[0]}.{fault.until[1]}"


def with_limits(page: str) -> str:
    """Return the page of limits with their defaults.

    Raises:
        ValueError: the page lacks a limit.
    """
    for name in Limits.__slots__:
        row = f"| `{name}` | <!-- default --> |"
        if row not in page:
            raise ValueError(f"docs/reference/limits.md has no row of the limit {name}")
        page = page.replace(row, f"| `{name}` | {getattr(Limits(), name):,} |")
    return page


def with_topics(page: str) -> str:
    """Return a page of rules with its table of topics. Each topic links to its rules."""
    text = ["| Topic | Rules |", "|---|---|"]
    for section in re.split(r"(?m)^## ", page)[1:]:
        topic, _, rest = section.partition("\n")
        rules = re.findall(r'(?m)^### <a id="([^"]+)"></a>\w+ ([^:]+): ', rest)
        if rules:
            place = re.sub(r"[^\w -]", "", topic.lower()).replace(" ", "-")
            text.append(f"| [{topic}](#{place}) | {' '.join(f'[{name}](#{anchor})' for anchor, name in rules)} |")
    return _between(page, "topics", "\n".join(text))


def with_checks(page: str) -> str:
    """Return the page of `harness check` with all checks, each with an anchor."""
    from harness.check.running import all_rules

    text = []
    for rule in all_rules():
        file = {"ICE": "iceberg", "DEL": "delta"}[rule.id[:3]]
        numbers = ", ".join(
            f"[{number}](../rules/{number.split()[0]}.md#{number.replace(' ', '-')})" for number in rule.breaks
        )
        assert all(number.split()[0] == file for number in rule.breaks), rule.id
        text += [
            f'#### <a id="{rule.id}"></a>{rule.id}: {rule.title}',
            "",
            f"{rule.severity.value}, level {rule.level.value}; reads {rule.reads.value}; {numbers}",
            "",
            f"Hurts: {rule.hurts} Mend: {rule.mends}.",
            "",
        ]
    return _between(page, "rules of check", "\n".join(text[:-1]))


def with_keywords(page: str) -> str:
    """Return the page of scenarios with the tables of their keywords."""
    keys = ((key.name, key.metadata["meaning"]) for key in dataclasses.fields(Expectation))
    selectors = ((name, kind.meaning) for name, kind in SELECTORS.items())
    for mark, rows in (("keys of expect", keys), ("keys of at", selectors)):
        page = _written(page, mark, "Key", (f"| `{name}` | {meaning} |" for name, meaning in rows))
    for mark, operations in (("Iceberg", ICEBERG_OPERATIONS), ("Delta", DELTA_OPERATIONS)):
        rows = (f"| `{name}` | `{operation.keys}` |" for name, operation in operations.items())
        page = _written(page, f"operations of {mark}", f"Operation of {mark}", rows)
    files = (
        ("Iceberg", iceberg.IcebergTable, iceberg.IcebergFileOptions),
        ("Delta", delta.DeltaTable, delta.DeltaFileOptions),
    )
    rows = (f"| {name} | {_file_keys(table.write_data, options)} |" for name, table, options in files)
    return _written(page, "keys of a file", "Table", rows)


def _file_keys(method: Any, options: Any) -> str:
    parameters = inspect.signature(method).parameters.keys() - {"self", "rows", "schema", "file_options"}
    keys = sorted(parameters | {field.name for field in dataclasses.fields(options)})
    return ", ".join(f"`{name.replace('_', '-')}`" for name in keys)


SCORES = {"Silently wrong": "silently wrong", "Right": "right of all"}
"""The columns of a table of scores, and the lines of docs/suite/readers.md with their values."""


def with_scores(page: str) -> str:
    """Return a page with a table of scores for each format, from docs/suite/readers.md, fewest silently wrong reads
    first.
    """
    _, _, table = (ROOT / "docs/suite/readers.md").read_text("utf-8").partition("<!-- run: ")
    lines = table.splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| ")]
    cells = {row[0].strip("*"): row[1:] for row in rows}
    text = []
    for format in ("Iceberg", "Delta"):
        scores = []
        for place, reader in enumerate(rows[0][1:]):
            name, _, version = reader.partition(" ")
            title, formats = READERS[name]
            if format in formats:
                values = [cells[f"{line}, {format.lower()}"][place] for line in SCORES.values()]
                scores.append((f"{title} {version}", *values))
        scores.sort(key=lambda score: (int(score[1].removeprefix("✗ ")), -float(score[2].removesuffix(" %"))))
        text += [f"| {format} | {' | '.join(SCORES)} |", f"|---|{'---:|' * len(SCORES)}"]
        text += [f"| {' | '.join(score)} |" for score in scores]
        text.append("")
    return _between(page, "scores", "\n".join(text[:-1]))


READERS = {
    "duckdb": ("**harness on DuckDB**", ("Iceberg", "Delta")),
    "spark": ("**harness on Spark**", ("Iceberg", "Delta")),
    "oracle": ("harness's oracle,", ("Iceberg", "Delta")),
    "duckdb-iceberg": ("DuckDB's Iceberg extension", ("Iceberg",)),
    "duckdb-delta": ("DuckDB's Delta extension", ("Delta",)),
    "pyiceberg": ("PyIceberg", ("Iceberg",)),
    "pyiceberg-core": ("pyiceberg-core under DataFusion", ("Iceberg",)),
    "iceberg-java": ("Iceberg's Java library", ("Iceberg",)),
    "iceberg-go": ("iceberg-go", ("Iceberg",)),
    "iceberg-rust": ("The crate iceberg", ("Iceberg",)),
    "deltalake": ("delta-rs, `deltalake`", ("Delta",)),
    "delta-kernel-java": ("Delta Kernel in Java", ("Delta",)),
    "delta-kernel-rust": ("Delta Kernel in Rust", ("Delta",)),
    "polars": ("Polars", ("Iceberg", "Delta")),
    "polars-iceberg": ("Polars with its extra `iceberg`,", ("Iceberg",)),
    "daft": ("Daft", ("Iceberg", "Delta")),
    "chdb": ("chDB (ClickHouse)", ("Iceberg", "Delta")),
    "sail": ("Sail", ("Iceberg", "Delta")),
    "spark-iceberg": ("Spark with Iceberg's jar,", ("Iceberg",)),
    "spark-delta": ("Spark with Delta's jar,", ("Delta",)),
}
"""The public names of readers, and the formats that they read."""


def with_functions(page: str) -> str:
    """Return the page of functions with its table.

    Names, signatures, and refusals are generated from the code. The page itself is the source of the other cells: the
    columns "Same result for" and "Otherwise", and the arguments and the Spark text of functions without signatures.

    Raises:
        ValueError: the page has no row for a function.
    """
    rows = [
        re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in page.splitlines() if line.startswith(("| `", "| <code>"))
    ]
    described = {row[0]: row for row in rows if len(row) == len(_FUNCTION_COLUMNS)}
    sections = []
    for kind in KINDS:
        entries = sorted((f for f in SUPPORTED if f.kind is kind), key=lambda f: f.names[0])
        head = f"| {' | '.join(_FUNCTION_COLUMNS)} |\n{'|---' * len(_FUNCTION_COLUMNS)}|"
        sections.append("\n".join([f"## {kind.value}\n", head, *(_function_row(each, described) for each in entries)]))
    refused = sum(bool(f.alternative) for f in SUPPORTED)
    names = sum(len(f.names) for f in SUPPORTED if not f.alternative)
    counted = (
        f"{len(SUPPORTED) - refused} functions and operators are supported, under {names} names; {refused} entries are "
        f"refused by name.\n{_everyday()}\n"
    )
    text = "\n\n".join([counted, *sections]).replace("\n\n\n", "\n\n")
    return _between(page, "functions", text)


_FUNCTION_COLUMNS = ("Function", "Arguments", "On Spark", "Same result for", "Otherwise")


def _everyday() -> str:
    lists = runpy.run_path(str(ROOT / "tests/queries/everyday.py"))
    equal, allowed, refused = (len(lists["listed"](lists[name])) for name in ("EQUAL", "ALLOWED", "REFUSED"))
    return (
        f"Of {equal + allowed + refused} everyday expressions that the tests try, {equal} are equal on both engines, "
        f"{allowed} are equal within an allowance,\nand {refused} are refused."
    )


def _function_row(function: Any, described: Mapping[str, list[str]]) -> str:
    names = _escaped(", ".join(map(_code, function.names)))
    if function.alternative:
        return f"| {names} |  | refused |  | {_escaped(function.alternative)} |"
    if names not in described:
        raise ValueError(
            f"docs/reference/functions.md has no row for {names}. Add `| {names} | | | all values | |` to its table, "
            "and state the values on which both engines agree, and the behavior for other values."
        )
    _, takes, spark, agree, otherwise = described[names]
    if function.forms:
        takes = _escaped("<br>".join(_plain(_parameters(form)) for form in function.forms))
        spark = _escaped("<br>".join(_code(form.spark) for form in function.forms))
    return f"| {names} | {takes} | {spark} | {agree} | {otherwise} |"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _parameters(form: Signature) -> str:
    return ", ".join([*(_PARAMETERS[each] for each in form.parameters), *(["..."] if form.repeats else [])])


def _plain(text: str) -> str:
    """Return text outside code, with brackets escaped that would begin a link."""
    return text.replace("[", "\\[")


def _code(text: str) -> str:
    places = {str(place): name for place, name in enumerate("abcdefgh")}
    return code_cell(
        re.sub(r"[{]([0-9])[}]", lambda m: places[m[1]], text).replace("{all}", "a, b, ...").replace("{type}", "…")
    )


def code_cell(text: str) -> str:
    """Return code in a table cell. A bar is not escaped, because site builders show a backslash between backticks."""
    if not text:
        return ""
    if "|" in text:
        return f"<code>{text.replace('|', '&#124;')}</code>"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def with_layers(page: str) -> str:
    """Return the page of the architecture with the layers in pyproject.toml, each described by its docstring."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = (each["layers"] for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    text = "\n".join(["| Layer | Subject |", "|---|---|", *map(_layer_row, layers)])
    return _between(page, "layers", text)


def _layer_row(layer: str) -> str:
    """Return a layer by its names. A folder replaces three or more of its modules."""
    names = re.split(r" [|:] ", layer)
    folders = Counter(name.rpartition(".")[0] for name in names)
    many = {folder for folder, count in folders.items() if count > 2 and folder != "harness"}
    parents = dict.fromkeys(parent if (parent := name.rpartition(".")[0]) in many else name for name in names)
    labels = [name.removeprefix("harness.") for name in parents]
    return f"| {', '.join(f'`{name}`' for name in labels)} | {'; '.join(map(_subject, labels))} |"


def _subject(name: str) -> str:
    """Return the first sentence of a module's docstring."""
    place = ROOT / "harness" / name.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return re.split(r"(?<=[.])\s", docstring)[0].rstrip(".").replace("\n", " ")


WRITTEN = {
    "docs/reference/cli.md": with_tables,
    "docs/reference/trust.md": with_trust,
    "docs/how-to/compare-readers.md": with_shapes,
    "docs/reference/check.md": with_checks,
    "docs/reference/limits.md": with_limits,
    "docs/architecture/index.md": with_layers,
    **{f"docs/rules/{name}.md": with_topics for name in ("iceberg", "delta", "frontier")},
    "docs/how-to/object-stores.md": with_stores,
}
"""The pages with tables, and the function that returns a page with its tables."""
COMMITTED = {"docs/how-to/write-a-scenario.md": with_keywords, "docs/reference/functions.md": with_functions}
"""The pages whose tables are also in the repository, so that a code host shows them."""


def main() -> None:
    """Write the tables that are in the repository: scores of readers, and those of COMMITTED."""
    for name, written in {**dict.fromkeys(("README.md", "docs/index.md"), with_scores), **COMMITTED}.items():
        page = ROOT / name
        page.write_text(written(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
