"""Everyday expressions of DuckDB's SQL, and what becomes of each on Spark: equal, allowed or refused.

Over a table of orders, `COLUMNS` and `ROWS`; two blanks part them. The reference counts them (`tests/docs/tables.py`).
"""

import re
from typing import Any

DAY = 86_400_000_000
COLUMNS = {
    "id": "int", "big": "long", "customer": "string", "city": "string", "note": "string", "code": "string",
    "total": "decimal(12, 2)", "price": "double", "rate": "double", "qty": "int", "ordered": "date",
    "shipped": "date", "made": "timestamp", "seen": "timestamp", "logged": "timestamptz", "active": "boolean",
    "tags": "list<string>", "scores": "list<int>", "address": "struct<street: string, zip: string, floor: int>",
    "props": "map<string, int>",
}  # fmt: skip


def _row(*values: Any) -> dict[str, Any]:
    return dict(zip(COLUMNS, values, strict=True))


ROWS: list[dict[str, Any]] = [
    _row(
        *(1, 10**10, "Ann Lee", "Köln", "first, second", "2024-01-05", "19.99", 12.345, 0.5, 3, 19782, 19785),
        *(19782 * DAY + 45_045_123_456, 19785 * DAY, 19782 * DAY, True, ["new", "vip"], [3, 1, 2]),
        *({"street": "Main St 5", "zip": "50667", "floor": 2}, {"a": 1, "b": 2}),
    ),
    _row(
        *(2, -5, "bob", "New York", "", "A-17", "-250.50", -0.005, 0.25, 0, 19753, 19753, 19753 * DAY + 1),
        *(-1, 19753 * DAY + 3_600_000_000, False, [], [5, None, 5]),
        *({"street": "Ring 1", "zip": "10115", "floor": None}, {}),
    ),
    _row(
        *(3, 0, "  Émile  ", "東京", "a_b%c", "42", "0.00", 1e6, 0.75, 10, -1, 19000, -3 * DAY, 19000 * DAY + DAY // 2),
        *(0, None, ["x", None, "x"], [0], {"street": None, "zip": None, "floor": 0}, {"c": None}),
    ),
    _row(
        *(4, 2**40, "O'Brien", "köln", "x;y;z", "true", "1000000.01", 2.5, 1.0, 7, 18321, None),
        *(18321 * DAY + 86_399_999_999, 18322 * DAY, 18321 * DAY, True, ["vip"], []),
        *({"street": "Hügel 7", "zip": "8001", "floor": 11}, {"a": 9}),
    ),
    _row(*(None,) * len(COLUMNS)),
]

EQUAL = """
range(id)  generate_series(qty, 0, -3)  upper(city)  lower(customer)  length(customer)  len(note)  trim(customer)
ltrim(customer)  rtrim(customer)  trim(note, 'a')  replace(city, 'ö', 'oe')  replace(note, ',', ';')  left(customer, 3)
right(customer, 3)  left(customer, -1)  right(city, id)  substring(city, 2, 3)  substr(customer, 1, 1)
substring(note FROM 3)  substring(customer, 2)  lpad(code, 12, '0')  rpad(city, 10, '.')  lpad(id::VARCHAR, 5, '0')
repeat('ab', qty)  repeat(code, 2)  reverse(code)  concat(customer, ' ', city)  concat(id, '-', qty)
concat_ws(', ', customer, city, note)  concat_ws('/', id, ordered)  customer || ' (' || city || ')'  id || ':' || qty
'#' || id  split(note, ',')  string_split(customer, ' ')  split(note, ';')[1]  split_part(note, ';', 2)
split_part(customer, ' ', -1)  split_part(code, '-', 1)  str_split(note, ', ')  strpos(customer, 'e')  instr(note, ';')
position('o' IN city)  contains(note, 'second')  starts_with(code, '2024')  ends_with(city, 'York')  prefix(city, 'K')
suffix(city, 'n')  city ^@ 'N'  ascii(customer)  chr(64 + qty)  unicode(city)  ord(customer)
translate(city, 'öü', 'ou')  md5(customer)  sha256(code)  sha1(customer)  hex(code)  hex(big)  to_base64(encode(code))
encode(city)  strlen(city)  bit_length(code)  octet_length(encode(city))  customer LIKE '%e%'  customer NOT LIKE 'A%'
note LIKE '%$%%' ESCAPE '$'  customer ILIKE '%LEE%'  city NOT ILIKE 'k_ln'  code ILIKE 'a-__'
regexp_matches(code, '^[0-9]+$')  regexp_matches(note, '\\d')  regexp_matches(customer, 'ann', 'i')
regexp_full_match(code, '[A-Z]-[0-9]+')  regexp_replace(note, '[,;]', ' ')  regexp_replace(note, '[,;]', ' ', 'g')
regexp_replace(code, '([A-Z])-([0-9]+)', '\\2\\1')  regexp_extract(code, '[0-9]+')
regexp_extract(customer, '^(\\w+) (\\w+)$', 2)  regexp_extract_all(note, '[a-z]')  regexp_split_to_array(note, '[,;] *')
string_split_regex(customer, '\\s+')  code SIMILAR TO '[0-9-]+'  note NOT SIMILAR TO '.*;.*'  customer = 'bob'
customer <> city  customer < 'c'  customer IN ('bob', 'Ann Lee')  city NOT IN ('Köln')  customer IS NULL
city IS NOT NULL  customer IS DISTINCT FROM city  coalesce(note, 'none')  ifnull(customer, '?')  nullif(note, '')
greatest(customer, city)  least(customer, city)  CASE WHEN city ILIKE 'k%' THEN 'DE' ELSE 'other' END
CASE code WHEN '42' THEN 1 WHEN 'true' THEN 2 END  if(length(note) > 3, note, 'short')  abs(total)  abs(price)
abs(id - 3)  @ qty  sign(total)  sign(price)  sign(qty)  sqrt(rate)  sqrt(qty)  floor(price)  floor(total)  floor(qty)
ceil(price)  ceiling(total)  ceil(rate)  trunc(price)  trunc(total)  round(price)  round(price, 2)  round(price, 1)
round(total, 1)  round(total)  round(price * 100, -2)  round(qty, 0)  total + 1  total * qty  total - 0.01  total / 3
qty / 2  qty // 2  qty % 2  mod(qty, 3)  price % 1  mod(total, 10)  total * 0.19  price * qty  price + rate  - total
-qty  qty + 1  qty - id  big * 2  big % 7  total * 1.19::DECIMAL(4, 2)  qty & 1  qty | 8  xor(qty, 5)  ~qty  qty >> 1
qty << 2  bit_count(qty)  pi()  radians(rate)  degrees(rate)  isnan(price)  isinf(price)  isfinite(price)
greatest(qty, id, 2)  least(total, 100)  greatest(price, rate)  least(ordered, shipped)  qty BETWEEN 1 AND 5
total BETWEEN 0 AND 100.5  price NOT BETWEEN 0 AND 1  qty IN (0, 3, 7)  qty NOT IN (3, 10)  qty IN [3, 10]
(id, qty) IN ((1, 3), (2, 1))  (id, qty) = (1, 3)  qty > id  total >= price  qty = 3.0  coalesce(qty, 0)
coalesce(total, 0)  nullif(qty, 0)  total / nullif(qty, 0)
CASE WHEN qty > 5 THEN 'many' WHEN qty > 0 THEN 'some' ELSE 'none' END  CASE WHEN active THEN total ELSE 0 END
if(active, 1, 0)  qty::VARCHAR  total::VARCHAR  total::INT  price::INT  price::BIGINT  price::DECIMAL(10, 2)
rate::DECIMAL(5, 3)  qty::DOUBLE  total::DOUBLE  qty::DECIMAL(10, 2)  active::INT  qty::BOOLEAN  big::DOUBLE
id::TINYINT  CAST(total AS DECIMAL(10, 1))  TRY_CAST(code AS INT) @@ code IN ('42', 'true')  TRY_CAST(big AS INT)
TRY_CAST(total AS TINYINT)  TRY_CAST(code AS BOOLEAN)  TRY_CAST(price AS SMALLINT)  code::DATE @@ id = 1
code::INT @@ id = 3  address.zip::INT @@ id < 3  TRY_CAST('x' || id AS DOUBLE)  ordered::VARCHAR  made::VARCHAR
logged::VARCHAR  made::DATE  ordered::TIMESTAMP  logged::DATE  logged::TIMESTAMP  active::VARCHAR  scores::BIGINT[]
scores::VARCHAR[]  year(ordered)  month(ordered)  day(made)  quarter(ordered)  week(ordered)  hour(made)  minute(made)
second(made)  millisecond(made)  microsecond(made)  dayofweek(ordered)  isodow(ordered)  weekday(made)
dayofyear(ordered)  isoyear(ordered)  yearweek(ordered)  century(ordered)  decade(ordered)  epoch(made)  epoch(ordered)
epoch_ms(ordered)  epoch_us(made)  extract(year FROM made)  extract(dow FROM ordered)  extract(epoch FROM made)
date_part('month', ordered)  date_part('hour', logged)  date_part('isodow', made)  date_trunc('month', ordered)
date_trunc('week', made)  date_trunc('hour', made)  date_trunc('year', logged)  date_trunc('quarter', ordered)
date_trunc('day', made)  date_trunc('decade', ordered)  date_diff('day', ordered, shipped)
date_diff('month', ordered, shipped)  date_diff('year', ordered, made)  date_diff('hour', made, seen)
date_diff('minute', made, seen)  datediff('quarter', ordered, shipped)  date_sub('hour', made, seen)
date_sub('day', ordered, shipped)  shipped - ordered  ordered + 7  ordered - 1  1 + ordered  ordered + INTERVAL 1 DAY
ordered + INTERVAL 1 MONTH  ordered - INTERVAL 1 YEAR  made + INTERVAL '2 hours'  made - INTERVAL 30 MINUTE
made + INTERVAL '1 day 12 hours'  logged + INTERVAL 1 WEEK  ordered + qty * INTERVAL 1 DAY
ordered + INTERVAL (qty) MONTH  made + to_hours(qty)  ordered + to_days(id)  date_add(ordered, INTERVAL 3 MONTH)
INTERVAL 1 DAY + ordered  epoch(seen - made)  extract(day FROM seen - made)  date_part('hour', seen - made)
seen - made > INTERVAL 1 DAY  seen - made < INTERVAL '36 hours'  ordered < shipped  ordered = DATE '2024-02-29'
made >= TIMESTAMP '2024-01-01 00:00:00'  made::DATE = ordered  ordered BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'
ordered >= '2020-01-01'  made < ordered + INTERVAL 1 DAY  made BETWEEN ordered AND ordered + INTERVAL 1 DAY
strftime(ordered, '%Y-%m-%d')  strftime(made, '%Y-%m-%d %H:%M:%S')  strftime(ordered, '%d.%m.%Y')
strftime(made, '%H:%M')  strftime(ordered, '%A, %-d. %B %Y')  strftime(ordered, '%Y%m')  strftime(made, '%I:%M %p')
strftime(ordered, '%j')  strptime(strftime(ordered, '%Y-%m-%d'), '%Y-%m-%d')  strptime(code, '%Y-%m-%d') @@ id = 1
strptime('05/01/2024', '%d/%m/%Y')::DATE  make_date(2024, id, 1)  make_date(year(ordered), 1, 1)
make_timestamp(2024, 1, 2, 3, 4, 5)  make_timestamp(big)  last_day(ordered)  last_day(made)  dayname(ordered)
monthname(made)  to_timestamp(big) @@ id < 4  epoch_ms(big) @@ id < 4  logged AT TIME ZONE 'UTC'
made AT TIME ZONE 'UTC'  coalesce(shipped, ordered)  greatest(ordered, shipped)  year(ordered) * 100 + month(ordered)
len(tags)  array_length(scores)  tags[1]  scores[-1]  scores[qty]  scores[1:2]  scores[2:]  tags[:-2]
list_extract(scores, 1)  list_slice(scores, 2, 3)  list_contains(tags, 'vip')  contains(scores, 5)
array_contains(tags, customer)  'vip' IN tags  list_position(scores, 5)  list_indexof(tags, 'vip')
list_has_any(tags, ['vip', 'x'])  list_has_all(scores, [1, 2])  list_sort(scores)  list_sort(tags, 'DESC')
list_reverse_sort(scores)  list_sort(list_distinct(tags))  len(list_distinct(scores))  list_reverse(tags)
list_concat(tags, ['end'])  scores || [9]  list_append(scores, qty)  list_prepend(0, scores)  flatten([scores, [1]])
array_to_string(tags, ', ')  array_to_string(scores, '-')  list_sum(scores)  list_aggregate(scores, 'sum')
list_min(scores)  list_max(tags)  list_count(scores)  list_transform(scores, lambda x: x + 1)
list_transform(tags, lambda t: t || '!')  list_transform(scores, lambda x, i: x * i)
list_filter(scores, lambda x: x > 1)  list_filter(tags, lambda t: t LIKE '%v%')  [x * 2 for x in scores]
[x for x in scores if x > 1]  array_to_string(list_transform(scores, lambda x: x::VARCHAR), '+')  [id, qty]  [1, 2, 3]
['a', customer]  list_value(total, 0.5)  address.zip  address.street  address['floor']  struct_extract(address, 'zip')
upper(address.street) @@ id < 3  {'id': id, 'city': city}  struct_pack(a := qty, b := total)  {'x': {'y': id}}
({'a': qty}).a  props['a']  props[customer]  map_keys(props)  list_sort(map_values(props))  map_contains(props, 'a')
element_at(props, 'a')  len(map_keys(props))  len(map_entries(props))  MAP {'k': qty}  MAP {'k': id, 'l': qty}['l']
active AND qty > 0  NOT active  active OR total > 100  active IS TRUE  active IS NOT TRUE
"""

ALLOWED = """
pow(price, 2)  power(qty, 3)  price ** 2  qty ^ 2  exp(rate)  ln(price)  log10(price)  log(total)  log2(qty)  sin(rate)
cos(rate)  tan(rate)  asin(rate)  acos(rate)  atan(price)  sinh(rate)  cosh(rate)  tanh(rate)
"""

REFUSED = """
price::VARCHAR  address::VARCHAR  levenshtein(customer, city)  jaccard(customer, city)  format('{}', id)
printf('%d', id)  strip_accents(city)  customer ~ 'b'  customer GLOB 'b*'  regexp_matches(customer, city)
regexp_matches(city, '\\p{L}')  regexp_replace(city, 'x*', '-', 'g')  customer LIKE city  city ILIKE 'KÖLN'
substring(city, -2, 1)  split(note, city)  lpad(code, 12, city)  round(price::FLOAT, 1)  price // 2  cbrt(price)
factorial(qty)  gcd(id, qty)  even(price)  random()  uuid()  hash(id)  typeof(id)  qty << id  now()  current_date
today()  age(made)  age(made, seen)  seen - made  INTERVAL 1 DAY  time_bucket(INTERVAL 1 DAY, made)
date_diff('week', ordered, shipped)  date_sub('month', ordered, shipped)  strftime(made, '%c')
strptime(code, '%b %d, %Y')  try_strptime(code, '%Y-%m-%d')  made AT TIME ZONE 'Europe/Berlin'
date_part('julian', ordered)  epoch(logged)  list_distinct(tags)  list_unique(tags)
list_reduce(scores, lambda a, b: a + b)  list_sort(scores, 'DESC', 'NULLS FIRST')  scores[1:3:2]  scores = scores
cardinality(props)  row(id, qty)
"""


def listed(text: str) -> list[tuple[str, str]]:
    """Each expression with the condition on the rows that it is asked for."""
    listed = re.split(r"\n|  +", text.strip())
    return [(sql, where or "true") for sql, _, where in (expression.partition(" @@ ") for expression in listed)]
