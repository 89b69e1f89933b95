"""Several catalogs on one connection, the namespace that USE selects, tables by location, and statements."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import harness
from harness.connections.statements import is_finished, statements
from harness.connections.tables import in_sql
from harness.errors import AmbiguousTableError, HarnessWarning, StorageError, TableNotFoundError
from harness.metadata.catalogs import pyiceberg
from harness.queries.inputs import is_location
from harness.writing.delta.builder import DeltaTable

DOWN = '[tool.harness.catalogs.down]\ntype = "unity"\nuri = "http://127.0.0.1:9"\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Configure the catalogs `dev` and `prod`. Each has `sales.orders`, which contains the catalog's name."""
    place = tmp_path_factory.mktemp("place")
    names = ("dev/sales/orders", "prod/sales/orders", "prod/sales/eu/orders", "prod/old/days", "prod/top")
    for name in names:
        table = DeltaTable.create(place / name, {"at": "string"})
        table.append(table.write_data([{"at": name}]))
    said = '[tool.harness.catalogs.{0}]\ntype = "warehouse"\nlocation = "{0}"\n'
    (place / "pyproject.toml").write_text(said.format("dev") + said.format("prod"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("XDG_CONFIG_HOME", str(place / "home"))
        patch.setattr(pyiceberg, "is_installed", lambda: False)
        yield place


@pytest.fixture(scope="module")
def connection(place: Path) -> Iterator[harness.Connection]:
    with harness.connect() as made:
        yield made


@pytest.fixture
def con(connection: harness.Connection) -> Iterator[harness.Connection]:
    with connection.cursor() as cursor:
        yield cursor


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT prod.sales.orders.at FROM prod.sales.orders", "prod/sales/orders"),
        ("FROM old.days", "prod/old/days"),  # only one catalog has it
        ("SELECT count(*) FROM prod.sales.orders.files", 1),
        ("USE prod.sales; FROM orders", "prod/sales/orders"),
        ('use "prod".SALES -- of all\n; FROM orders', "prod/sales/orders"),
        ("USE prod.sales; SELECT count(*) FROM orders.versions", 2),
        ("USE prod.sales; FROM old.days", "prod/old/days"),  # in the same catalog
        ("USE prod.sales; FROM dev.sales.orders", "dev/sales/orders"),
        ("USE prod; FROM sales.orders", "prod/sales/orders"),
        ("USE old; FROM days", "prod/old/days"),
        ("USE prod.sales; USE memory; SELECT count(*) FROM old.days", 1),
        ("USE prod.sales; CREATE TEMP TABLE mine AS FROM orders; FROM mine", "prod/sales/orders"),
        ("CREATE SCHEMA own; CREATE TEMP TABLE x AS SELECT 1; FROM temp.x; DROP SCHEMA own; FROM temp.x", 1),
        ("SELECT count(*) > 0 FROM information_schema.schemata", True),
        ("FROM 'prod/old/days'", "prod/old/days"),
        ("SELECT days.at FROM './prod/old/days/' WHERE days.at > 'a'", "prod/old/days"),
        ('SELECT d.at FROM "prod/old/days" d', "prod/old/days"),
        ('SELECT count(*) FROM "prod/old/days".files', 1),
        ("SELECT count(*) FROM 'prod/old/days' AT (VERSION => 0)", 0),
        ("CREATE TEMP TABLE y AS SELECT 5 AS n; COPY y TO 'y.csv'; FROM './y.csv'", 5),
    ],
)
def test_table_names_are_resolved(con, query, expected):
    assert con.execute(query).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("USE prod.sales; SHOW TABLES", ["orders", "prod.sales.eu.orders"]),
        ("USE dev; CREATE TEMP TABLE own AS SELECT 1; SHOW TABLES", ["dev.sales.orders", "own"]),
        ("SHOW TABLES IN prod.sales.eu; SHOW TABLES FROM prod", ["top"]),
        ("SHOW TABLES FROM memory", []),
        ("SHOW DATABASES", ["dev", "memory", "prod"]),
        ("SELECT schema_name FROM (SHOW SCHEMAS) WHERE false; SHOW SCHEMAS FROM dev", ["dev"]),
        ("SHOW SCHEMAS", ["dev", "memory", "prod", "prod"]),
    ],
)
def test_show_statements_list_catalog_contents(con, query, expected):
    assert [row[0] for row in con.execute(query).fetchall()] == expected


def test_names_are_those_of_the_chosen_namespace(con):
    whole = [("dev", "sales", "orders"), ("prod", "top"), ("prod", "old", "days"), ("prod", "sales", "orders")]
    assert list(con.names()) == [*whole, ("prod", "sales", "eu", "orders")]
    con.sql("USE prod.sales")
    assert con.within == ("prod", "sales")
    assert list(con.names(everywhere=False)) == [("orders",), ("prod", "sales", "eu", "orders")]
    assert next(con.cursor().names(everywhere=False)) == ("orders",)
    assert con.table("orders").name == "prod.sales.orders"


def test_the_name_of_the_only_catalog_is_optional(place):
    with harness.connect("prod") as con:
        for chosen in ("sales", "prod.sales", "PROD.SALES"):
            assert con.execute(f"USE {chosen}; FROM orders").fetchall() == [("prod/sales/orders",)]
        assert con.execute("USE prod; FROM top").fetchall() == [("prod/top",)]
        assert con.execute("SHOW DATABASES").fetchall() == [("memory",), ("prod",)]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        (
            "FROM sales.orders",
            AmbiguousTableError,
            "may be any of dev.sales.orders, prod.sales.orders: write its full name",
        ),
        ("USE sales", AmbiguousTableError, "Namespace sales may be any of dev.sales, prod.sales: write its full name"),
        ("FROM prod.sales.ordrs", TableNotFoundError, "no table prod.sales.ordrs; the nearest are prod.sales.orders"),
        ("USE dev; FROM old.days", TableNotFoundError, "There is no table old.days; the nearest are prod.old.days"),
        ("USE prd", TableNotFoundError, "There is no namespace prd; the nearest are prod"),
        ("SHOW TABLES FROM prod.sals", TableNotFoundError, "There is no namespace prod.sals"),
        ("CREATE SCHEMA old; USE prod; USE old", AmbiguousTableError, "old is both prod.old and a schema of this"),
        ("FROM 'prod/old/nights'", TableNotFoundError, "no table at 'prod/old/nights'.*; prod/old has days"),
        ("FROM 'prod/old/dayz'", TableNotFoundError, "no table at 'prod/old/dayz'.*; did you mean prod/old/days"),
    ],
)
def test_unknown_and_ambiguous_names_are_errors(con, query, error, message):
    try:
        with pytest.raises(error, match=message):
            con.execute(query)
    finally:
        con.execute("DROP SCHEMA IF EXISTS memory.old")


def test_a_catalog_that_is_down_stops_only_its_own_names(place, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        (place / "pyproject.toml").read_text().replace('location = "', f'location = "{place}/') + DOWN
    )
    monkeypatch.chdir(tmp_path)
    with harness.connect() as con:
        assert con.execute("FROM prod.top").fetchall() == [("prod/top",)]
        with pytest.raises(StorageError, match=r"whether catalog down has old\.days: Catalog down .* does not answer"):
            con.execute("FROM old.days")  # the catalog that is down may have it too
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(TableNotFoundError, match=r"the nearest are prod\.sales\.orders"):
                con.execute("FROM prod.sales.ordrs")  # the name includes its catalog, so the other is not queried
        with pytest.warns(HarnessWarning, match="The tables of catalog down are left out: Catalog down at"):
            assert len(con.execute("SHOW TABLES").fetchall()) == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s3://lake/orders", True),
        ("s3a://lake/v1/t/metadata/00001-a.metadata.json", True),
        ("abfss://c@account.dfs.core.windows.net/orders", True),
        ("s3://lake/orders/*.parquet", False),
        ("https://host/days.csv.gz", False),
        ("prod/old/days", True),
        ("prod/old", False),
        ("prod", False),
        ("days", False),
    ],
)
def test_locations_are_distinguished_from_names_and_files(place, name, expected):
    assert is_location(name) is expected


@pytest.mark.parametrize(
    ("text", "expected", "ends"),
    [
        ("", [], True),
        (" ;; -- a ; b\n ;", [], True),
        ("SELECT 1; SELECT\n2", ["SELECT 1", "SELECT\n2"], False),
        ("SELECT ';''' ; SELECT 2;", ["SELECT ';'''", "SELECT 2"], True),
        ("SELECT E'\\';' ;", ["SELECT E'\\';'"], True),
        ("SELECT name'\\';", ["SELECT name'\\'"], True),
        ('FROM "a;""b";', ['FROM "a;""b"'], True),
        ("/* ; SELECT 1;", ["/* ; SELECT 1;"], False),
        ("SELECT 1 -- ;\n;", ["SELECT 1 -- ;"], True),
        ("SELECT $$;$$; SELECT $a$;$$;$a$;", ["SELECT $$;$$", "SELECT $a$;$$;$a$"], True),
        ("SELECT 1; -- done", ["SELECT 1"], True),
    ],
)
def test_statements_end_with_semicolons(text, expected, ends):
    assert statements(text) == expected
    assert is_finished(text) is ends


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (("sales", "orders"), "sales.orders"),
        (("sales", "Orders_2"), "sales.Orders_2"),
        (("sales", "a-b"), 'sales."a-b"'),
        (("select", "day"), '"select".day'),
        (("LEFT",), '"LEFT"'),
        (("x.y", 'a"b', "1st", ""), '"x.y"."a""b"."1st".""'),
        (("ünï",), "ünï"),
    ],
)
def test_parts_of_names_are_quoted_if_sql_requires_quotes(name, written):
    assert in_sql(name) == written


def test_quoted_names_are_identifiers_of_duckdb():
    names = ["orders", "a-b", "select", "left", "values", "ünï", "day", "1st"]
    columns = ", ".join(f"{number} AS {in_sql((name,))}" for number, name in enumerate(names))
    assert duckdb.sql(f"SELECT {columns}").columns == names
