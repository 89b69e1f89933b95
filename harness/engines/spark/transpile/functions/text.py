"""Functions of text."""

from __future__ import annotations

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions import nested
from harness.engines.spark.transpile.functions.registry import (
    ANY_TEXT,
    BIGINT,
    BLOB,
    INTEGER,
    LITERAL_PATTERN,
    LITERAL_TEXT,
    PLACE,
    VARCHAR,
    Call,
    Function,
    Lowering,
    Parameter,
    Signature,
    checked_value,
    function_of_forms,
)
from harness.engines.spark.transpile.values import BLOB_TYPE, BOOLEAN, INT, LONG, TEXT, TypedSql, list_of
from harness.metadata.model import schema as dt

# The letters for which DuckDB (utf8proc) and Java agree on the other case, for all Unicode versions and locales.
# Letters whose other case has several letters or depends on their neighbors (ß, İ, ŉ, ΐ, ΰ, Σ), and scripts that got
# case late in Unicode, are excluded. Scripts without case are included, so that text in them is accepted.


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
"""These letters, in the form of a Java character class."""


_TEXTS = list_of(TEXT)
_SPACES = spark_text.text("".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))))
"""The characters that DuckDB's trim() removes: Unicode's spaces (Zs)."""


def _change_case(name: str) -> Lowering:
    """Return the lowering of `upper` or `lower`. For other letters the engines follow different rules ('ß', 'İ')."""

    def lower(call: Call) -> TypedSql | None:
        text = VARCHAR(call.value(0))
        if text is None:
            return None
        message = f"{name.lower()}() of some non-ASCII letters differs between Spark and DuckDB"
        condition = f"NOT {text} RLIKE {spark_text.text(f'[^{CASED}]')}"
        # In Java, the case of I depends on the JVM's locale: İ and ı in Turkish.
        letters = "'i', 'I'" if name == "UPPER" else "'I', 'i'"
        return TypedSql(checked_value(text, condition, f"{name}(TRANSLATE({text}, {letters}))", message), TEXT)

    return lower


def _substring(call: Call) -> TypedSql | None:
    if len(call.arguments) not in (2, 3):
        return None
    text, start = VARCHAR(call.value(0)), call.value(1)
    count = call.value(2).number if len(call.arguments) > 2 else 2**31 - 1
    if count is None or count < 0:
        raise call.refusal("a substring whose length is not a literal of 0 or more", "use left() and right()")
    if text is None or not isinstance(start.type, dt.IntegerType):
        return None
    first = start.number
    if first is None or first < 0:
        raise call.refusal("a substring whose start is not a literal of 0 or more", "use left() and right()")
    if len(call.arguments) < 3:
        return TypedSql(f"SUBSTRING({text}, {max(first, 1)})", TEXT)
    length = str(min(count, 2**31 - 1))
    # For start 0, the position before the first character counts.
    length = f"({length} - 1)" if first == 0 else length
    return TypedSql(f"SUBSTRING({text}, {max(first, 1)}, {length})", TEXT)


def _or_empty(value: TypedSql) -> str | None:
    text = ANY_TEXT(value)
    return None if text is None else f"COALESCE({text}, '')"


OR_EMPTY: Parameter = _or_empty
"""A value as text that both engines write alike; empty for null, which DuckDB's CONCAT skips."""


def _concat_lists(call: Call) -> TypedSql | None:
    values = call.values()
    if not all(isinstance(v.type, dt.ListType) for v in values) or len({str(v.type) for v in values}) != 1:
        return None
    return TypedSql(f"CONCAT({', '.join(v.sql for v in values)})", values[0].type)


def _text_signature(type_: dt.Type, spark: str, count: int = 1) -> Signature:
    """Return a signature with `count` text parameters."""
    return Signature((VARCHAR,) * count, type_, spark)


def _pad(name: str) -> Function:
    form = Signature((VARCHAR, INTEGER, LITERAL_TEXT), TEXT, f"{name}({{0}}, IF({{1}} < 0, 0, {{1}}), {{2}})")
    return function_of_forms((name.lower(),), form, instead="write the padding as a literal that is not empty")


def _end(name: str) -> Function:
    """Return the entry for `left` or `right`."""
    from_the_other = f"{name}({{0}}, GREATEST(CHAR_LENGTH({{0}}) + {{1}}, 0))"
    case = f"CASE WHEN {{1}} < 0 THEN {from_the_other} ELSE {name}({{0}}, {{1}}) END"
    return function_of_forms((name.lower(),), Signature((VARCHAR, PLACE), TEXT, case))


_REVERSED = checked_value(
    "{0}",
    "CHAR_LENGTH({0}) = OCTET_LENGTH({0}) AND NOT CONTAINS({0}, '\\r')",
    "REVERSE({0})",
    "reverse() of non-ASCII text reverses graphemes on DuckDB and code points on Spark",
)
_ALIKE = "cast to VARCHAR where both engines write the same text"
_SPLIT = "write the separator as a literal that is not empty"

FUNCTIONS = (
    Function(
        ("length", "len", "char_length", "character_length"),
        nested.size,
        1,
        (_text_signature(LONG, "CAST(CHAR_LENGTH({0}) AS BIGINT)"),),
    ),
    Function(("contains",), nested.contains, 2, (_text_signature(BOOLEAN, "CONTAINS({0}, {1})", 2),)),
    function_of_forms(("strlen",), _text_signature(LONG, "CAST(OCTET_LENGTH({0}) AS BIGINT)")),
    function_of_forms(("bit_length",), _text_signature(LONG, "CAST(BIT_LENGTH({0}) AS BIGINT)")),
    function_of_forms(("octet_length",), Signature((BLOB,), LONG, "CAST(OCTET_LENGTH({0}) AS BIGINT)")),
    Function(("upper", "ucase"), _change_case("UPPER"), 1),
    Function(("lower", "lcase"), _change_case("LOWER"), 1),
    *(
        function_of_forms(
            (name,),
            _text_signature(TEXT, f"TRIM({side} {_SPACES} FROM {{0}})"),
            _text_signature(TEXT, f"TRIM({side} {{1}} FROM {{0}})", 2),
        )
        for name, side in (("trim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING"))
    ),
    Function(("substring", "substr"), _substring),
    _end("LEFT"),
    _end("RIGHT"),
    _pad("LPAD"),
    _pad("RPAD"),
    function_of_forms(("repeat",), Signature((VARCHAR, PLACE), TEXT, "REPEAT({0}, {1})")),
    function_of_forms(("replace",), _text_signature(TEXT, "REPLACE({0}, {1}, {2})", 3)),
    function_of_forms(("translate",), _text_signature(TEXT, "TRANSLATE({0}, {1}, {2})", 3)),
    function_of_forms(("reverse",), _text_signature(TEXT, _REVERSED)),
    function_of_forms(("strpos", "instr", "position"), _text_signature(LONG, "CAST(INSTR({0}, {1}) AS BIGINT)", 2)),
    function_of_forms(("starts_with", "prefix"), _text_signature(BOOLEAN, "STARTSWITH({0}, {1})", 2)),
    function_of_forms(("ends_with", "suffix"), _text_signature(BOOLEAN, "ENDSWITH({0}, {1})", 2)),
    function_of_forms(
        ("split", "string_split", "str_split", "string_to_array"),
        # A null separator does not split on DuckDB.
        Signature((VARCHAR, LITERAL_PATTERN), _TEXTS, "SPLIT({0}, {1})"),
        instead=_SPLIT,
    ),
    function_of_forms(
        ("split_part",),
        Signature(
            (VARCHAR, LITERAL_TEXT, PLACE),
            TEXT,
            "CASE WHEN {2} = 0 THEN IF({0} IS NULL, NULL, '') ELSE SPLIT_PART({0}, {1}, {2}) END",
        ),
        instead=_SPLIT,
    ),
    function_of_forms(("concat",), Signature((OR_EMPTY,), TEXT, "CONCAT({all})", repeats=True), instead=_ALIKE),
    # Both engines skip nulls but not empty texts, and return null if the separator is null.
    function_of_forms(
        ("concat_ws",),
        Signature((VARCHAR, ANY_TEXT), TEXT, "CONCAT_WS({all})", repeats=True),
        instead="cast to VARCHAR",
    ),
    Function(("||",), _concat_lists, 2, (Signature((ANY_TEXT, ANY_TEXT), TEXT, "({0} || {1})"),), instead=_ALIKE),
    function_of_forms(("ascii",), _text_signature(INT, "ASCII({0})")),
    function_of_forms(("unicode", "ord"), _text_signature(INT, "CASE WHEN {0} = '' THEN -1 ELSE ASCII({0}) END")),
    function_of_forms(("chr",), Signature((INTEGER,), TEXT, "DECODE(UNHEX(LPAD(HEX({0}), 8, '0')), 'UTF-32')")),
    function_of_forms(
        ("md5",), _text_signature(TEXT, "MD5(CAST({0} AS BINARY))"), Signature((BLOB,), TEXT, "MD5({0})")
    ),
    function_of_forms(
        ("sha1",), _text_signature(TEXT, "SHA1(CAST({0} AS BINARY))"), Signature((BLOB,), TEXT, "SHA1({0})")
    ),
    function_of_forms(
        ("sha256",), _text_signature(TEXT, "SHA2(CAST({0} AS BINARY), 256)"), Signature((BLOB,), TEXT, "SHA2({0}, 256)")
    ),
    function_of_forms(
        ("hex", "to_hex"), *(Signature((parameter,), TEXT, "HEX({0})") for parameter in (VARCHAR, BLOB, BIGINT))
    ),
    function_of_forms(("base64", "to_base64"), Signature((BLOB,), TEXT, "BASE64({0})")),
    function_of_forms(("encode",), _text_signature(BLOB_TYPE, "CAST({0} AS BINARY)")),
    Function(
        (
            *("levenshtein", "editdist3", "damerau_levenshtein", "jaccard", "hamming", "mismatches"),
            *("jaro_similarity", "jaro_winkler_similarity"),
        ),
        alternative="compare texts with = or LIKE",
    ),
    Function(("format", "printf"), alternative="join the parts with ||"),
    Function(("strip_accents", "nfc_normalize"), alternative="replace the letters with translate()"),
)
