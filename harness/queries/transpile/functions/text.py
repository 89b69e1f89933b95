"""Functions of text."""

from __future__ import annotations

from typing import Unpack

from harness.metadata.model.schema import Field, IntegerType, ListType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions import lists
from harness.queries.transpile.functions.registry import (
    ANY_TEXT,
    BIGINT,
    BLOB,
    INTEGER,
    LITERAL_PATTERN,
    LITERAL_TEXT,
    PLACE,
    VARCHAR,
    Call,
    Domain,
    Function,
    FunctionKind,
    Lowering,
    Signature,
    whole,
)
from harness.queries.transpile.values import BLOB_TYPE, BOOLEAN, INT, LONG, TEXT, Typed

# The letters whose other case DuckDB (utf8proc) and Java agree on, whatever their version of Unicode and the locale.
# Letters whose other case is several letters or depends on their neighbours (ß, İ, ŉ, ΐ, ΰ, Σ), and scripts whose cases
# came late to Unicode, are not among them. Scripts without case are, so that text in them goes through.


_RANGES = (
    (0x00, 0xDE),
    (0xE0, 0x12F),
    (0x131, 0x148),
    (0x14A, 0x17F),
    (0x300, 0x344),  # combining marks
    (0x346, 0x36F),
    (0x386, 0x386),  # Greek
    (0x388, 0x38A),
    (0x38C, 0x38C),
    (0x38E, 0x38F),
    (0x391, 0x3A1),
    (0x3A4, 0x3AF),
    (0x3B1, 0x3CE),
    (0x400, 0x52F),  # Cyrillic
    (0x5D0, 0x5EA),  # Hebrew
    (0x600, 0x6FF),  # Arabic
    (0x900, 0x97F),  # Devanagari
    (0xE00, 0xE7F),  # Thai
    (0x2000, 0x206F),  # punctuation
    (0x20A0, 0x20BF),  # currencies
    (0x2190, 0x22FF),  # arrows, mathematics
    (0x2500, 0x27BF),  # boxes, symbols
    (0x3000, 0x30FF),  # kana
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7A3),  # Hangul
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F300, 0x1FAFF),  # emoji
)

CASED = "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in _RANGES)
"""These letters as Java's regular expressions have them in brackets."""


_TEXTS = ListType(Field(id=0, name="element", type=TEXT))
_SPACES = spark_text.text("".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))))
"""The characters that DuckDB's trim() takes away: Unicode's spaces (Zs)."""


def guarded(condition: str, value: str, message: str) -> str:
    """A value where a condition holds; elsewhere an error when the row comes along."""
    return f"CASE WHEN {condition} THEN {value} ELSE RAISE_ERROR({spark_text.text(message)}) END"


def _cased(name: str) -> Lowering:
    """`upper` and `lower`: beyond some letters the engines follow other rules ('ß', 'İ')."""

    def lower(call: Call) -> Typed | None:
        text = VARCHAR.taken(call.value(0)) if len(call.arguments) == 1 else None
        if text is None:
            return None
        message = f"{name.lower()}() of some letters beyond ASCII differs between Spark and DuckDB"
        known = f"NOT {text} RLIKE {spark_text.text(f'[^{CASED}]')}"
        # Java's rules for I are those of the JVM's locale: İ and ı in a Turkish one.
        letters = "'i', 'I'" if name == "UPPER" else "'I', 'i'"
        done = guarded(known, f"{name}(TRANSLATE({text}, {letters}))", message)
        return Typed(f"CASE WHEN {text} IS NULL THEN NULL ELSE {done} END", TEXT)

    return lower


def _substring(call: Call) -> Typed | None:
    if len(call.arguments) not in (2, 3):
        return None
    text, start = VARCHAR.taken(call.value(0)), call.value(1)
    count = clipped_count(call)
    if text is None or not isinstance(start.type, IntegerType):
        return None
    first = whole(start)
    if first is None or first < 0:
        raise call.refused("a substring that does not start at a literal from 0 on", "use left() and right()")
    if first == 0 and count:
        # The place before the first one counts.
        count = f"({count} - 1)"
    return Typed(f"SUBSTRING({text}, {max(first, 1)}{f', {count}' if count else ''})", TEXT)


def clipped_count(call: Call) -> str:
    """The third argument, a number from 0 on; empty if there is none. Raises UnsupportedError."""
    if len(call.arguments) < 3:
        return ""
    count = whole(call.value(2))
    if count is None or count < 0:
        raise call.refused("a substring whose length is no literal from 0 on", "use left() and right()")
    return str(min(count, 2**31 - 1))


def _texts(call: Call) -> list[str]:
    texts = [ANY_TEXT.taken(call.value(place)) for place in range(len(call.arguments))]
    listed = [text for text in texts if text is not None]
    if len(listed) < len(texts):
        types = ", ".join(str(call.value(place).type) for place in range(len(texts)))
        raise call.refused(f"{call.name} of {types}", "cast to VARCHAR where both engines write the same text")
    return listed


def _concat(call: Call) -> Typed | None:
    """DuckDB leaves nulls out; Spark's is null if one part is."""
    return Typed(f"CONCAT({', '.join(f'COALESCE({text}, {_EMPTY})' for text in _texts(call))})", TEXT)


_EMPTY = "''"


def _concatenated(call: Call) -> Typed | None:
    values = [call.value(place) for place in range(len(call.arguments))]
    if all(isinstance(v.type, ListType) for v in values) and len({str(v.type) for v in values}) == 1:
        return Typed(f"CONCAT({', '.join(v.sql for v in values)})", values[0].type)
    return Typed(f"({' || '.join(_texts(call))})", TEXT)


def _text(names: tuple[str, ...], *forms: Signature, draws: tuple[str, ...], **domain: Unpack[Domain]) -> Function:
    return Function(names=names, kind=FunctionKind.TEXT, forms=forms, draws=draws, **domain)


def _refused(names: tuple[str, ...], why: str) -> Function:
    return Function(names=names, kind=FunctionKind.TEXT, refused=why)


FUNCTIONS = (
    Function(
        names=("length", "len", "char_length", "character_length"),
        kind=FunctionKind.TEXT,
        forms=(Signature((VARCHAR,), LONG, "CAST(CHAR_LENGTH({0}) AS BIGINT)"),),
        lowering=lists.size,
        agree="text and lists",
        draws=("length({text})", "len({ints})", "len(list_distinct({texts}))"),
    ),
    Function(
        names=("contains",),
        kind=FunctionKind.TEXT,
        forms=(Signature((VARCHAR, VARCHAR), BOOLEAN, "CONTAINS({0}, {1})"),),
        lowering=lists.contains,
        agree="text and lists",
        draws=("contains({text}, {text})", "contains({ints}, 2)"),
    ),
    _text(("strlen",), Signature((VARCHAR,), LONG, "CAST(OCTET_LENGTH({0}) AS BIGINT)"), draws=("strlen({text})",)),
    _text(
        ("bit_length",), Signature((VARCHAR,), LONG, "CAST(BIT_LENGTH({0}) AS BIGINT)"), draws=("bit_length({text})",)
    ),
    _text(
        ("octet_length",),
        Signature((BLOB,), LONG, "CAST(OCTET_LENGTH({0}) AS BIGINT)"),
        draws=("octet_length({blob})",),
    ),
    *(
        Function(
            names=names,
            kind=FunctionKind.TEXT,
            lowering=_cased(names[0].upper()),
            takes="VARCHAR",
            written=names[0].upper(),
            agree="Latin, Greek and Cyrillic letters with one of the other case each, and scripts without case",
            outside="an error when other text comes along, such as 'ß' or 'İ'",
            draws=(f"{names[0]}({{cased}})",),
        )
        for names in (("upper", "ucase"), ("lower", "lcase"))
    ),
    *(
        _text(
            (name,),
            Signature((VARCHAR,), TEXT, f"TRIM({side} {_SPACES} FROM {{0}})"),
            Signature((VARCHAR, VARCHAR), TEXT, f"TRIM({side} {{1}} FROM {{0}})"),
            draws=(f"{name}({{text}})", f"{name}({{text}}, {{text}})"),
        )
        for name, side in (("trim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING"))
    ),
    Function(
        names=("substring", "substr"),
        kind=FunctionKind.TEXT,
        lowering=_substring,
        takes="VARCHAR, BIGINT[, BIGINT]",
        written="SUBSTRING(a, b, c)",
        agree="a start and a length that are literals from 0 on",
        outside="refused: use left() and right()",
        draws=("substring({text}, 2, 2)", "substring({text}, 1)", "substring({text}, 0, 2)"),
    ),
    *(
        _text(
            (name.lower(),),
            Signature(
                (VARCHAR, PLACE),
                TEXT,
                f"CASE WHEN {{1}} < 0 THEN {name}({{0}}, GREATEST(CHAR_LENGTH({{0}}) + {{1}}, 0)) "
                f"ELSE {name}({{0}}, {{1}}) END",
            ),
            draws=(f"{name.lower()}({{text}}, {{place}})", f"{name.lower()}({{text}}, 2)"),
        )
        for name in ("LEFT", "RIGHT")
    ),
    *(
        _text(
            (name,),
            Signature((VARCHAR, INTEGER, LITERAL_TEXT), TEXT, f"{name.upper()}({{0}}, IF({{1}} < 0, 0, {{1}}), {{2}})"),
            draws=(f"{name}({{text}}, {{place}}, 'xy')",),
            outside="refused: a padding that is no literal, or empty",
        )
        for name in ("lpad", "rpad")
    ),
    _text(("repeat",), Signature((VARCHAR, PLACE), TEXT, "REPEAT({0}, {1})"), draws=("repeat({text}, {place})",)),
    *(
        _text(
            (name,),
            Signature((VARCHAR, VARCHAR, VARCHAR), TEXT, f"{name.upper()}({{0}}, {{1}}, {{2}})"),
            draws=(f"{name}({{text}}, {{text}}, {{text}})",),
        )
        for name in ("replace", "translate")
    ),
    _text(
        ("reverse",),
        Signature(
            (VARCHAR,),
            TEXT,
            "CASE WHEN {0} IS NULL THEN NULL ELSE "
            + guarded(
                "CHAR_LENGTH({0}) = OCTET_LENGTH({0}) AND NOT CONTAINS({0}, '\\r')",
                "REVERSE({0})",
                "reverse() of text beyond ASCII goes by graphemes on DuckDB and by code points on Spark",
            )
            + " END",
        ),
        agree="ASCII without carriage returns",
        outside="an error when other text comes along: DuckDB keeps graphemes",
        draws=("reverse({ascii})",),
    ),
    _text(
        ("strpos", "instr", "position"),
        Signature((VARCHAR, VARCHAR), LONG, "CAST(INSTR({0}, {1}) AS BIGINT)"),
        draws=("strpos({text}, {text})", "position({text} IN {text})"),
    ),
    _text(
        ("starts_with", "prefix"),
        Signature((VARCHAR, VARCHAR), BOOLEAN, "STARTSWITH({0}, {1})"),
        draws=("starts_with({text}, {text})", "({text} ^@ {text})"),
    ),
    _text(
        ("ends_with", "suffix"),
        Signature((VARCHAR, VARCHAR), BOOLEAN, "ENDSWITH({0}, {1})"),
        draws=("ends_with({text}, {text})",),
    ),
    _text(
        ("split", "string_split", "str_split", "string_to_array"),
        # A separator of null splits by nothing on DuckDB.
        Signature((VARCHAR, LITERAL_PATTERN), _TEXTS, "SPLIT({0}, {1})"),
        outside="refused: a separator that is no literal, or empty",
        draws=("split({text}, ',')", "string_split({text}, 'X')"),
    ),
    _text(
        ("split_part",),
        Signature(
            (VARCHAR, LITERAL_TEXT, PLACE),
            TEXT,
            "CASE WHEN {2} = 0 THEN IF({0} IS NULL, NULL, '') ELSE SPLIT_PART({0}, {1}, {2}) END",
        ),
        outside="refused: a separator that is no literal, or empty",
        draws=("split_part({text}, ',', {place})", "split_part({text}, 'b', -1)"),
    ),
    Function(
        names=("concat",),
        kind=FunctionKind.TEXT,
        lowering=_concat,
        takes="any, ...",
        written="CONCAT(COALESCE(a, ''), ...)",
        agree="text, integers, decimals, booleans, dates, nulls",
        outside="refused: cast to VARCHAR",
        draws=("concat({text}, {text}, 'x')", "concat({int}, {decimal}, {boolean}, {date})"),
    ),
    _text(
        ("concat_ws",),
        # On both engines nulls are left out, empty texts are not, and a separator of null makes a null.
        Signature((VARCHAR, ANY_TEXT), TEXT, "CONCAT_WS({all})", more=-1),
        agree="text, integers, decimals, booleans, dates, nulls",
        outside="refused: cast to VARCHAR",
        draws=("concat_ws({text}, {text}, {text})", "concat_ws('-', {int}, {date})"),
    ),
    Function(
        names=("||",),
        kind=FunctionKind.OPERATORS,
        lowering=_concatenated,
        takes="any, any",
        written="a || b",
        agree="text, integers, decimals, booleans, dates, nulls",
        outside="refused: cast to VARCHAR",
        draws=("({text} || {text})", "({text} || {int})", "({ints} || {ints})"),
    ),
    _text(("ascii",), Signature((VARCHAR,), INT, "ASCII({0})"), draws=("ascii({text})",)),
    _text(
        ("unicode", "ord"),
        Signature((VARCHAR,), INT, "CASE WHEN {0} = '' THEN -1 ELSE ASCII({0}) END"),
        draws=("unicode({text})", "ord({text})"),
    ),
    _text(
        ("chr",),
        Signature((INTEGER,), TEXT, "DECODE(UNHEX(LPAD(HEX({0}), 8, '0')), 'UTF-32')"),
        outside="an error: what is no code point",
        draws=("chr({point})",),
    ),
    _text(
        ("md5",),
        Signature((VARCHAR,), TEXT, "MD5(CAST({0} AS BINARY))"),
        Signature((BLOB,), TEXT, "MD5({0})"),
        draws=("md5({text})", "md5({blob})"),
    ),
    _text(
        ("sha1",),
        Signature((VARCHAR,), TEXT, "SHA1(CAST({0} AS BINARY))"),
        Signature((BLOB,), TEXT, "SHA1({0})"),
        draws=("sha1({text})",),
    ),
    _text(
        ("sha256",),
        Signature((VARCHAR,), TEXT, "SHA2(CAST({0} AS BINARY), 256)"),
        Signature((BLOB,), TEXT, "SHA2({0}, 256)"),
        draws=("sha256({text})",),
    ),
    _text(
        ("hex", "to_hex"),
        Signature((VARCHAR,), TEXT, "HEX({0})"),
        Signature((BLOB,), TEXT, "HEX({0})"),
        Signature((BIGINT,), TEXT, "HEX({0})"),
        draws=("hex({text})", "hex({blob})", "hex({long})", "hex({int})"),
    ),
    _text(("base64", "to_base64"), Signature((BLOB,), TEXT, "BASE64({0})"), draws=("base64({blob})",)),
    _text(("encode",), Signature((VARCHAR,), BLOB_TYPE, "CAST({0} AS BINARY)"), draws=("encode({text})",)),
    _refused(
        (
            "levenshtein",
            "editdist3",
            "damerau_levenshtein",
            "jaccard",
            "hamming",
            "mismatches",
            "jaro_similarity",
            "jaro_winkler_similarity",
        ),
        "compare texts with = or LIKE",
    ),
    _refused(("format", "printf"), "join the parts with ||"),
    _refused(("strip_accents", "nfc_normalize"), "replace the letters with translate()"),
)
