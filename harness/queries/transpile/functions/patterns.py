"""Functions of regular expressions, and the operators of patterns."""

from __future__ import annotations

from harness.model.schema import Field, ListType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.parameters import VARCHAR, said, whole
from harness.queries.transpile.functions.regexes import Regex, RegexError, java_replacement, parse_regex
from harness.queries.transpile.functions.registry import Call, Function, Kind, Lowering
from harness.queries.transpile.values import BOOLEAN, TEXT, Typed

_TEXTS = ListType(Field(id=0, name="element", type=TEXT))


def _subject(call: Call) -> str:
    text = VARCHAR.taken(call.value(0))
    if text is None:
        raise call.refused(f"{call.name} of {call.value(0).type}")
    return text


def _regex(call: Call, options: str = "") -> Regex:
    pattern = said(call.value(1))
    if pattern is None:
        raise call.refused("a regular expression that is no literal")
    try:
        return parse_regex(pattern, options)
    except RegexError as error:
        raise call.refused(f"a regular expression with {error}", "use the syntax that RE2 and Java share") from None


def _options(call: Call, place: int) -> str:
    if len(call.arguments) <= place:
        return ""
    options = said(call.value(place))
    if options is None:
        raise call.refused("options that are no literal")
    return options


def _matches(call: Call) -> Typed | None:
    regex = _regex(call, _options(call, 2))
    return Typed(f"({_subject(call)} RLIKE {spark_text.text(regex.java)})", BOOLEAN)


def _matches_whole(call: Call) -> Typed | None:
    regex = _regex(call, _options(call, 2))
    return Typed(f"({_subject(call)} RLIKE {spark_text.text(f'{_START}(?:{regex.java}){_END}')})", BOOLEAN)


_START, _END = "\\A", "\\z"


def _replaced(call: Call) -> Typed | None:
    """The first match, or all of them with the option `g`: Spark replaces all."""
    options = _options(call, 3)
    regex, text = _regex(call, options.replace("g", "")), said(call.value(2))
    if text is None:
        raise call.refused("a replacement that is no literal")
    if "g" in options:
        if regex.may_be_empty:
            raise call.refused("all matches of what may be empty")
        java, shift = regex.java, 0
    else:
        # Anchored at the start, it matches once; what lies before the first match stays.
        java, shift = f"\\A((?s).*?)({regex.java})", 2
    if regex.repeated and "\\" in text:
        raise call.refused("a group that is repeated, in a replacement")
    try:
        by = java_replacement(text, regex.groups, shift)
    except RegexError as error:
        raise call.refused(str(error)) from None
    by = by if shift == 0 else f"$1{by}"
    return Typed(f"REGEXP_REPLACE({_subject(call)}, {spark_text.text(java)}, {spark_text.text(by)})", TEXT)


def _extracted(function: str) -> Lowering:
    def lower(call: Call) -> Typed | None:
        group = whole(call.value(2)) if len(call.arguments) > 2 else 0
        regex = _regex(call, _options(call, 3))
        if group is None or not 0 <= group <= regex.groups or (group > 0 and regex.repeated):
            raise call.refused("this group of a regular expression")
        if function == "REGEXP_EXTRACT_ALL" and regex.may_be_empty:
            raise call.refused("all matches of what may be empty")
        type_ = TEXT if function == "REGEXP_EXTRACT" else _TEXTS
        return Typed(f"{function}({_subject(call)}, {spark_text.text(regex.java)}, {group})", type_)

    return lower


def _split(call: Call) -> Typed | None:
    regex = _regex(call)
    if regex.may_be_empty or len(call.arguments) != 2:
        raise call.refused("a split by what may be empty")
    return Typed(f"SPLIT({_subject(call)}, {spark_text.text(regex.java)})", _TEXTS)


def _pattern(
    names: tuple[str, ...], lowering: Lowering | None, takes: str, written: str, *draws: str, outside: str = ""
) -> Function:
    return Function(
        names=names,
        kind=Kind.PATTERNS,
        lowering=lowering,
        takes=takes,
        written=written,
        agree="what RE2 and Java read alike" if lowering is not None else "",
        outside=outside or "refused: patterns that are no literals, or read otherwise by either",
        draws=draws,
    )


_LITERAL = "VARCHAR, literal[, literal]"

FUNCTIONS = (
    _pattern(
        ("regexp_matches",),
        _matches,
        _LITERAL,
        "RLIKE",
        "regexp_matches({text}, '^[a-z]+.?$')",
        "regexp_matches({text}, '\\s|\\d{{2}}')",
        "regexp_matches({text}, 'x(b|y)', 'i')",
    ),
    _pattern(
        ("regexp_full_match", "SIMILAR TO"),
        _matches_whole,
        _LITERAL,
        "RLIKE, between \\A and \\z",
        "regexp_full_match({text}, 'a.*')",
        "({text} SIMILAR TO '[^a]*|ab+c')",
    ),
    _pattern(
        ("regexp_replace",),
        _replaced,
        "VARCHAR, literal, literal[, literal]",
        "REGEXP_REPLACE; without the option g anchored, so that it replaces once",
        "regexp_replace({text}, '[aX]', '-')",
        "regexp_replace({text}, '(a)(.)', '\\2$\\1', 'g')",
    ),
    _pattern(
        ("regexp_extract",),
        _extracted("REGEXP_EXTRACT"),
        "VARCHAR, literal[, literal[, literal]]",
        "REGEXP_EXTRACT",
        "regexp_extract({text}, '[a-z]+')",
        "regexp_extract({text}, 'a(.)(x)?', 2)",
    ),
    _pattern(
        ("regexp_extract_all",),
        _extracted("REGEXP_EXTRACT_ALL"),
        "VARCHAR, literal[, literal]",
        "REGEXP_EXTRACT_ALL",
        "regexp_extract_all({text}, '[ab]')",
    ),
    _pattern(
        ("regexp_split_to_array", "string_split_regex", "str_split_regex"),
        _split,
        "VARCHAR, literal",
        "SPLIT",
        "regexp_split_to_array({text}, '[ ,]+')",
    ),
    _pattern(
        ("LIKE",),
        None,
        "VARCHAR, literal",
        "LIKE",
        "({text} LIKE 'a%')",
        "({text} NOT LIKE '%$_b%' ESCAPE '$')",
        outside="refused: patterns that are no literals",
    ),
    _pattern(
        ("ILIKE",),
        None,
        "VARCHAR, literal",
        "LIKE, both in lower case",
        "({text} ILIKE 'A%')",
        "({text} NOT ILIKE '_x%')",
        outside="refused: patterns that are no literals, or have letters beyond ASCII",
    ),
    Function(
        names=("a ~ b",),
        kind=Kind.PATTERNS,
        refused="use regexp_matches() or regexp_full_match(): which of them it is depends on DuckDB's version",
    ),
    Function(names=("GLOB",), kind=Kind.PATTERNS, refused="use LIKE or regexp_matches()"),
    Function(names=("regexp_escape",), kind=Kind.PATTERNS, refused="write the pattern as a literal"),
)
