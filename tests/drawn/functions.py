"""The whole table of functions, with the calls that tests draw of each.

Operators, casts, LIKE and window functions are lowered by modules of their own, and have their names here alone.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from harness.queries.transpile.aggregates import AGGREGATES
from harness.queries.transpile.functions.registry import Signature
from harness.queries.transpile.functions.table import SCALARS


class FunctionKind(enum.Enum):
    """The section of the table in which a function stands."""

    GENERAL = "Conditions and nulls"
    OPERATORS = "Operators and casts"
    TEXT = "Text"
    PATTERNS = "Patterns"
    NUMBERS = "Numbers"
    TIMES = "Dates and times"
    LISTS = "Lists"
    NESTED = "Structs and maps"
    AGGREGATES = "Aggregates"
    WINDOWS = "Window functions"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the table.

    names: DuckDB's names, first the usual one; an operator by its sign.
    draws: DuckDB's SQL with kinds of values in braces, by which tests draw calls: `lpad({text}, {count}, {text})`.
    forms: the signatures of the code.
    refused: words to write instead of a function that is always refused; empty: it is not.
    """

    names: tuple[str, ...]
    kind: FunctionKind
    draws: tuple[str, ...]
    forms: tuple[Signature, ...] = ()
    refused: str = ""


_WINDOW = "OVER (PARTITION BY b1 ORDER BY row)"

# A row: DuckDB's name of a function in the code, or several, or all names of what has an entry here alone, then two
# spaces and the calls, which may go on in the next line. @ is the name, {window} the one above. What stands behind a
# hyphen has no calls.
_ROWS: dict[FunctionKind, str] = {
    FunctionKind.GENERAL: r"""
coalesce  coalesce({text}, {text}); ifnull({double}, {double}); coalesce({long}, {int}, 0)
greatest  greatest({double}, {double}); greatest({text}, {text}, 'b'); greatest({date}, {date})
least  least({double}, {double}); least({long}, {int}, 7); least({timestamp}, {timestamp})
nullif  nullif({int}, {int}); nullif({text}, ''); nullif({double}, {double})
""",
    FunctionKind.OPERATORS: r"""
||  ({text} || {text}); ({text} || {int}); ({ints} || {ints})
+, -, *  ({count} + {place}); ({double} * {double}); ({decimal} - {decimal}); ({near} + INTERVAL 1 MONTH);
      ({near} - INTERVAL '1 day 2 hours'); ({near} + {count} * INTERVAL 1 DAY); ({date} - {date})
/  ({int} / 7); ({decimal} / 3); ({double} / {double}); ({int} / {decimal})
//  ({int} // 7)
=, <>, <, <=, >, >=, BETWEEN, IS DISTINCT FROM  ({double} < {double}); ({text} IS DISTINCT FROM {text});
      ({date} <= {timestamp}); ({int} BETWEEN {int} AND {long}); (({timestamp} - {timestamp}) > INTERVAL 1 DAY);
      (({int}, {text}) = ({int}, {text}))
IN  ({int} IN (1, 2, NULL)); ({double} NOT IN (0.5, 'nan')); ({int} IN {ints});
      (({int}, {text}) IN ((1, 'a'), (0, NULL))); ({int} IN [1, NULL])
CASE, if  CASE WHEN {boolean} THEN {int} ELSE {long} END; CASE {int} WHEN 1 THEN 'a' WHEN {int} THEN {text} END;
      if({boolean}, {double}, 0)
CAST, ::  ({decimal}::INT); ({angle}::DECIMAL(10, 2)); ({date}::VARCHAR); ({timestamp}::VARCHAR);
      ({int}::VARCHAR::INT); ({date}::VARCHAR::DATE); ({ints}::BIGINT[]); ({timestamp}::DATE)
TRY_CAST  TRY_CAST({int} AS TINYINT); TRY_CAST({double} AS INT); TRY_CAST({ascii} AS INT);
      TRY_CAST({ascii} AS DATE); TRY_CAST({decimal} AS DECIMAL(3, 1))
AND, OR, NOT, IS NULL, IS TRUE  ({boolean} AND {int} > 1 OR NOT {boolean}); ({text} IS NULL);
      ({boolean} IS NOT TRUE)
-  typeof; hash
""",
    FunctionKind.TEXT: r"""
length  length({text}); len({ints}); len(list_distinct({texts}))
contains  contains({text}, {text}); contains({ints}, 2)
strlen bit_length  @({text})
octet_length  octet_length({blob})
upper lower  @({cased})
trim ltrim rtrim  @({text}); @({text}, {text})
substring  substring({text}, 2, 2); substring({text}, 1); substring({text}, 0, 2)
left right  @({text}, {place}); @({text}, 2)
lpad rpad  @({text}, {place}, 'xy')
repeat  repeat({text}, {place})
replace translate  @({text}, {text}, {text})
reverse  reverse({ascii})
strpos  strpos({text}, {text}); position({text} IN {text})
starts_with  starts_with({text}, {text}); ({text} ^@ {text})
ends_with  ends_with({text}, {text})
split  split({text}, ','); string_split({text}, 'X')
split_part  split_part({text}, ',', {place}); split_part({text}, 'b', -1)
concat  concat({text}, {text}, 'x'); concat({int}, {decimal}, {boolean}, {date})
concat_ws  concat_ws({text}, {text}, {text}); concat_ws('-', {int}, {date})
ascii  ascii({text})
unicode  unicode({text}); ord({text})
chr  chr({point})
md5  md5({text}); md5({blob})
sha1 sha256  @({text})
hex  hex({text}); hex({blob}); hex({long}); hex({int})
base64  base64({blob})
encode  encode({text})
-  levenshtein; format; strip_accents
""",
    FunctionKind.PATTERNS: r"""
regexp_matches  regexp_matches({text}, '^[a-z]+.?$'); regexp_matches({text}, '\s|\d{{2}}');
      regexp_matches({text}, 'x(b|y)', 'i')
regexp_full_match  regexp_full_match({text}, 'a.*'); ({text} SIMILAR TO '[^a]*|ab+c')
regexp_replace  regexp_replace({text}, '[aX]', '-'); regexp_replace({text}, '(a)(.)', '\2$\1', 'g')
regexp_extract  regexp_extract({text}, '[a-z]+'); regexp_extract({text}, 'a(.)(x)?', 2)
regexp_extract_all  regexp_extract_all({text}, '[ab]')
regexp_split_to_array  regexp_split_to_array({text}, '[ ,]+')
LIKE  ({text} LIKE 'a%'); ({text} NOT LIKE '%$_b%' ESCAPE '$')
ILIKE  ({text} ILIKE 'A%'); ({text} NOT ILIKE '_x%')
-  a ~ b; GLOB; regexp_escape
""",
    FunctionKind.NUMBERS: r"""
abs  abs({double}); abs({decimal}); abs({small})
sign  sign({double}); sign({decimal}); sign({int})
floor ceil trunc  @({double}); @({decimal}); @({float}); @({int})
round  round({decimal}, 1); round({double}); round({double}, 2); round({seconds}, -2)
mod  ({int} % 7); mod({double}, {double}); ({decimal} % 3)
sqrt  sqrt({double})
pow  pow({double}, {place})
exp ln log10 log2  @({double})
sin cos tan asin acos atan sinh cosh tanh  @({angle})
radians degrees  @({double})
pi  pi()
&  ({int} & {int})
|  ({long} | {int})
xor  xor({int}, {int})
~  (~{int})
<<  ({int} >> 3); ({count} << 4)
bit_count  bit_count({int})
isinf isfinite  @({double})
-  factorial; cbrt; random
""",
    FunctionKind.TIMES: r"""
year quarter month day dayofweek isodow dayofyear week isoyear yearweek decade century  @({date}); @({timestamp});
      @({instant})
millennium era hour minute second millisecond microsecond  @({date}); @({timestamp}); @({instant})
epoch  epoch({date}); epoch({timestamp})
date_part  date_part('year', {date}); extract(minute FROM {timestamp});
      date_part('epoch', {timestamp} - {timestamp})
date_trunc  date_trunc('year', {timestamp}); date_trunc('week', {timestamp}); date_trunc('hour', {timestamp});
      date_trunc('second', {timestamp}); date_trunc('month', {date}); date_trunc('quarter', {instant});
      date_trunc('decade', {near})
date_diff  date_diff('day', {timestamp}, {timestamp}); date_diff('month', {timestamp}, {timestamp});
      date_diff('hour', {timestamp}, {timestamp}); date_diff('second', {timestamp}, {timestamp});
      date_diff('quarter', {date}, {timestamp}); date_diff('year', {instant}, {instant})
date_sub  date_sub('hour', {timestamp}, {timestamp}); date_sub('day', {date}, {timestamp})
date_add  date_add({near}, INTERVAL 1 MONTH)
to_years to_months to_weeks to_days to_hours to_minutes  ({near} + @({count}))
epoch_ms  epoch_ms({date}); epoch_ms(date_trunc('second', {timestamp}))
epoch_us  epoch_us({timestamp})
epoch_ns  epoch_ns({near})
to_timestamp  to_timestamp({int}); to_timestamp({seconds})
make_date  make_date(2024, 2, 29); make_date(year({date}), 1, 1)
make_timestamp  make_timestamp(year({date}), 2, 3, 4, 5, 6.789); make_timestamp({int})
last_day  last_day({date}); last_day({timestamp})
dayname  dayname({date})
monthname  monthname({timestamp})
strftime  strftime({timestamp}, '%Y-%m-%d %H:%M:%S'); strftime({date}, '%d. %B %y')
strptime  strptime(strftime({date}, '%d/%m/%Y'), '%d/%m/%Y')
timezone  ({timestamp} AT TIME ZONE 'UTC'); ({instant} AT TIME ZONE 'UTC')
-  age; time_bucket; try_strptime; now
""",
    FunctionKind.LISTS: r"""
list_value  [{int}, {long}]; [{text}, 'a', NULL]
list_contains  list_contains({ints}, {int}); list_contains({texts}, {text}); list_contains({doubles}, {double})
list_position  list_position({ints}, {int}); list_position({texts}, NULL)
list_has_any list_has_all  @({ints}, {ints})
list_extract  list_extract({ints}, {place}); {texts}[2]; {ints}[{place}]; {ints}[-1]
list_slice  list_slice({ints}, 2, 3); {ints}[2:]; {texts}[:-2]; {ints}[-2:-1]
list_sort  list_sort({ints}); list_sort({texts}, 'DESC'); list_sort({doubles}, 'ASC', 'NULLS FIRST');
      list_sort(list_distinct({ints}))
list_reverse_sort list_reverse  @({ints})
array_length  array_length({ints}); len({texts})
list_concat  list_concat({ints}, {ints})
list_append  list_append({ints}, {int})
list_prepend  list_prepend({int}, {ints})
flatten  flatten([{ints}, {ints}])
array_to_string  array_to_string({texts}, ','); array_to_string({ints}, '')
list_min list_max  @({ints}); @({doubles})
list_sum  list_sum({ints}); list_sum({doubles}); list_sum([{decimal}, 0.0000000003])
list_count  list_count({texts})
list_transform  list_transform({ints}, lambda x: coalesce(x, 0) // 2);
      list_transform({texts}, lambda x, i: concat(x, i)); [x % 3 for x in {ints} if x > 1]
list_filter  list_filter({ints}, lambda x: x > {int}); list_filter({texts}, lambda x, i: i > 1)
list_aggregate  list_aggregate({ints}, 'sum'); list_aggr({doubles}, 'max'); array_aggregate({texts}, 'count')
range generate_series  @({count}); @({count}, {small} % 100); @({count}, 0, -2);
      @(DATE '2024-01-01' - {count}, DATE '2024-01-05', INTERVAL 36 HOURS);
      @(TIMESTAMP '2024-01-28 10:00:00', TIMESTAMP '2025-01-28 10:00:00', INTERVAL 1 MONTH)
-  list_distinct; list_reduce
""",
    FunctionKind.NESTED: r"""
struct_pack  struct_pack(a := {int}, b := {text}); {{'a': {int}, 'b': {date}}}
struct_extract  struct_extract({struct}, 'x'); {struct}['y']; ({struct}).x
map_keys map_values  list_sort(@({map}))
map_entries  len(map_entries({map}))
map_extract_value  {map}['a']; {map}[{text}]; MAP {{'a': {int}, 'b': 2}}['a']
element_at  element_at({map}, 'a')
map_contains  map_contains({map}, 'b')
map  map(['a', 'b'], [{int}, 2]); map([1, 2, 3], [{text}, 'x', NULL])[2]
-  cardinality; row; map_concat
""",
    FunctionKind.AGGREGATES: r"""
count  count(*); count({text}); count(DISTINCT {int}); count(DISTINCT ({int}, {text}));
      count(*) FILTER (WHERE {boolean})
count_if  count_if({boolean})
sum  sum({int}); sum({decimal}); sum({seconds}); sum(DISTINCT {int}); sum({int}) * 1.5
avg  avg({int}); avg({decimal}); avg({seconds}); avg({int}::HUGEINT); mean({int})
min  min({int}, 3); min({text}); min({seconds}); min({date}); min({decimal}); min({blob})
max  max({text}, 2); max({text}); max({double}); max({timestamp}); max({boolean})
bool_and  bool_and({boolean})
bool_or  bool_or({int} > 50)
bit_and bit_or bit_xor  @({int}); @({long})
stddev_samp stddev_pop var_samp var_pop  @({count}); @({decimal}); @({seconds})
covar_samp covar_pop corr  @({count}, {count})
mode  mode(row // 1000); mode({boolean} IS NULL OR true) FILTER (row > 1)
median  median({int}); median({seconds}); median({decimal})
quantile_cont  quantile_cont({int}, 0.3); quantile_cont({seconds}, 0.9)
quantile_disc  quantile_disc({int}, 0.35); quantile_disc({text}, [0, 0.5, 1]); quantile({date}, 0.125)
list  list({text} ORDER BY row); list({double} ORDER BY {int} DESC NULLS FIRST, row) FILTER (row > 3);
      list(DISTINCT t1 ORDER BY t1 DESC); list({ints} ORDER BY {boolean}, {date} DESC, row); len(list({int}));
      list_sort(list(DISTINCT {text}))
first last any_value  @({int} ORDER BY row); @({text} ORDER BY {double} DESC, row)
arg_max  arg_max({text}, row, 3); arg_max({text}, row); max_by(row, {text} || row)
arg_min  arg_min({int}, row, 2); arg_min({decimal}, row); min_by({text}, row)
string_agg  string_agg({text}, '-' ORDER BY row DESC); string_agg({text} ORDER BY {text} NULLS FIRST, row);
      string_agg(DISTINCT t1, '+' ORDER BY t1)
grouping  grouping(b1)
-  histogram
""",
    FunctionKind.WINDOWS: r"""
row_number  row_number() {window}
rank  rank() OVER (ORDER BY {text})
dense_rank  dense_rank() OVER (ORDER BY {int} DESC)
percent_rank  percent_rank() OVER (ORDER BY {double})
cume_dist  cume_dist() OVER (ORDER BY {date} NULLS FIRST)
ntile  ntile(4) {window}
lag lead  @({text}) {window}; @({int}, 2, 0) {window}; @({date} IGNORE NULLS) {window}
first_value last_value  @({text}) {window}; @({int} IGNORE NULLS) {window}
nth_value  nth_value({text}, 3) {window}
OVER  count(*) OVER (ORDER BY {near} RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND INTERVAL 90 MINUTES FOLLOWING);
      sum({int}) OVER (ORDER BY {count} GROUPS UNBOUNDED PRECEDING);
      list({text} ORDER BY row) OVER (PARTITION BY b1);
      sum({int}) OVER (ORDER BY row ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING);
      count({text}) OVER (ORDER BY {count} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING);
      max({text}) OVER (PARTITION BY {count} ORDER BY {int} RANGE UNBOUNDED PRECEDING)
""",
}

NEAR = frozenset(
    ("pow", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
)
"""Functions whose results may differ by 2 units in the last place: the libraries round in their own ways."""

_CODE = {function.names[0]: function for function in (*SCALARS, *AGGREGATES)}


def _entries(kind: FunctionKind, rows: str) -> Iterator[Entry]:
    for row in rows.strip().replace("\n      ", " ").replace("{window}", _WINDOW).split("\n"):
        first, _, calls = row.partition("  ")
        names = calls.split("; ") if first == "-" else first.split(" ")
        for name in names if first == "-" or first.replace(" ", "_").isidentifier() else [first]:
            draws = () if first == "-" else tuple(calls.replace("@(", f"{name}(").split("; "))
            if (code := _CODE.get(name)) is None:
                yield Entry(tuple(name.split(", ")), kind, draws)
            else:
                yield Entry(code.names, kind, draws, getattr(code, "forms", ()), getattr(code, "refused", ""))


SUPPORTED = tuple(entry for kind, rows in _ROWS.items() for entry in _entries(kind, rows))
