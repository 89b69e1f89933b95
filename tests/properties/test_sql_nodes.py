"""No node of parsed SQL is mistaken for another one, whatever classes sqlglot defines."""

from collections.abc import Iterator

import pytest
from sqlglot import exp, parse_one

from harness.engines.spark.transpile import queries
from harness.engines.spark.transpile.parser import check
from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters.literals import general_form, literal_of
from harness.metadata.filters.parse import filter_of, parse_filter
from harness.metadata.filters.predicate import Undecided
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType
from harness.queries.rewrite import SqlStatement, rewrite_statement

FIELDS = (Field(id=1, name="s", type=StringType()), Field(id=2, name="i", type=IntegerType(32)))
SCHEMA = Schema(fields=FIELDS)
# For each class that harness looks for and that has subclasses: a condition with a node of the class. None means that
# no condition contains one.
CONDITIONS = {
    exp.Cast: "CAST(s AS INT) = 1",
    exp.Column: "s = 'a'",
    exp.DataType: "CAST(i AS BIGINT) = 1",
    exp.Alias: None,  # in a projection; the subclasses occur in PIVOT, which is not lowered
    exp.Order: None,  # in a query; the subclasses are Spark's SORT BY and DISTRIBUTE BY
    # in a projection or join; the subclasses are Spark's, and no text in DuckDB's dialect produces them
    exp.Explode: None,
    exp.JSONPathPart: None,  # inside a path, which is refused as a whole
    exp.Quantile: None,  # an aggregate; the subclass is approx_quantile, which is refused by name
}
# Classes of DuckDB's own dialect that harness handles explicitly.
KNOWN = {exp.TryCast}


def special_forms(kind: type[exp.Expr]) -> Iterator[type[exp.Expr]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from special_forms(inner)


SPECIAL = [
    pytest.param(general, special, condition, id=special.__name__)
    for general, condition in CONDITIONS.items()
    for special in special_forms(general)
    if condition is not None
]


@pytest.mark.parametrize(("general", "special", "condition"), SPECIAL)
class TestASpecialForm:
    """The node of a condition, replaced by a subclass with the same parts."""

    def test_is_distinguished_from_the_general_form(self, general, special, condition):
        assert general_form(special) is not None
        assert general_form(general) is None

    def test_decides_nothing_in_planning(self, general, special, condition):
        changed = changed_into(special, general, condition)
        assert literal_of(next(changed.find_all(special))) is None
        try:
            found = filter_of(changed, SCHEMA).predicate
        except RequestError:
            return
        assert found == Undecided()

    def test_is_not_pushed_to_planning(self, general, special, condition):
        query = parse_one(f"SELECT 1 FROM t WHERE {condition} AND i = 1", dialect="duckdb")
        changed = changed_into(special, general, query)
        statement = SqlStatement(explain="", text=query.sql("duckdb"), tree=changed, dialect="duckdb")
        (reference,) = rewrite_statement(statement, {("t",): "t"}, {"t": SCHEMA}, into="spark").references
        assert reference.where in (None, parse_filter('("i" = 1)', SCHEMA))

    def test_is_not_lowered_for_spark_as_the_general_one(self, general, special, condition):
        changed = changed_into(special, general, condition)
        if special not in KNOWN:
            with pytest.raises(UnsupportedError):
                check(changed)
            return
        lowered = {lowered_or_none(text) for text in (condition, changed.sql("duckdb"))}
        assert len(lowered) == 2 or lowered == {None}


def changed_into(special: type[exp.Expr], general: type[exp.Expr], condition: str | exp.Expr) -> exp.Expr:
    tree = parse_one(condition, dialect="duckdb") if isinstance(condition, str) else condition.copy()
    node = next(node for node in tree.walk() if type(node) is general)
    parts = {name: exp.var(v.name) if isinstance(v, exp.DType) else v for name, v in node.args.items()}
    node.replace(special(**{name: part for name, part in parts.items() if name in special.arg_types}))
    return tree


def lowered_or_none(condition: str) -> str | None:
    try:
        return queries.query(f"SELECT {condition} FROM t", {"t": {f.name: f.type for f in FIELDS}}).sql
    except UnsupportedError:
        return None
