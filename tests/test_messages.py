"""The texts of errors and warnings: whole lines, the rule of the table's format, and the names of options."""

import gzip
import inspect
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.cli import main, options
from harness.errors import HarnessError, warn, without_secrets
from harness.metadata.catalogs.warehouse import Warehouse
from harness.table import open_storage
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def delta(tmp_path: Path) -> DeltaTable:
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    t.append(t.write_data([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]))
    return t


def error_of(location: object, engine: str = "duckdb", **how: object) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        harness.open_table(str(location)).snapshot().to_arrow(engine=engine, **how)
    return caught.value


def remove(file: Path) -> None:
    file.unlink()


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def encrypt(file: Path) -> None:
    file.write_bytes(b"PARE" + file.read_bytes()[4:-4] + b"PARE")


def other_type(file: Path) -> None:
    pa.parquet.write_table(pa.table({"id": ["text", "more"], "s": ["a", "b"]}), file)


def same_names(file: Path) -> None:
    pa.parquet.write_table(pa.table({"ID": [1, 2], "Id": [1, 2], "s": ["a", "b"]}), file)


BREAKS = [
    pytest.param(remove, "delta L45", id="missing"),
    pytest.param(damage, "delta L45", id="damaged"),
    pytest.param(encrypt, None, id="encrypted"),
    pytest.param(other_type, "delta T23", id="other-type"),
    pytest.param(same_names, "delta T10", id="same-names"),
]


@pytest.mark.parametrize(("how", "rule"), BREAKS)
@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_errors_about_files_of_a_delta_table_cite_delta(delta, how, rule, engine) -> None:
    how(delta.live_files[0].file)
    caught = error_of(delta.directory, engine)
    assert caught.rule == rule or (engine == "oracle" and caught.rule is None)
    assert "iceberg" not in str(caught)


@pytest.mark.parametrize(("how", "rule"), BREAKS)
def test_errors_about_files_of_a_delta_table_cite_delta_on_spark(delta, how, rule, spark) -> None:
    how(delta.live_files[0].file)
    caught = error_of(delta.directory, "spark")
    assert caught.rule == rule
    assert "iceberg" not in str(caught)


def test_a_wrong_count_of_a_delta_file_cites_delta(delta) -> None:
    file = delta.live_files[0]
    delta.delete(file, [0])
    pa.parquet.write_table(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}), file.file)
    for engine in ("duckdb", "oracle"):
        assert error_of(delta.directory, engine).rule == "delta E9"


def test_every_option_of_opening_and_reading_has_a_command_option() -> None:
    """Each argument of `open_table` and `read_untrusted` is a command option, or a name for `--set`."""
    arguments = inspect.signature(harness.open_table).parameters | inspect.signature(harness.read_untrusted).parameters
    for name in arguments.keys() - {"location", "query"}:
        assert options.option_for(name, None).startswith("--"), name
    assert options.option_for("allowed_roots", None) == "--allow-root"
    assert options.option_for("max_version", "3") == "--set max_version=3"


def test_a_failed_side_is_reported_with_the_commands_options(delta, capfd) -> None:
    delta.live_files[0].file.unlink()
    assert main(["diff", str(delta.directory), "--engines", "duckdb"]) == 2
    shown = capfd.readouterr()
    assert "map its path with --set path_map.OLD=NEW" in shown.err


@pytest.fixture
def positional(tmp_path) -> str:
    """A table whose files have no field ids and no name mapping."""
    t = IcebergTable.create(tmp_path / "p", {"id": "long", "s": "string"})
    t.append(t.write_data([{"id": 1, "s": "a"}], field_ids=False))
    return str(tmp_path / "p")


def test_a_warning_points_to_the_line_that_called_harness(positional) -> None:
    snapshot = harness.open_table(positional).snapshot()
    for read in (lambda: [snapshot.to_arrow()], lambda: [pa.table(snapshot)], lambda: [snapshot.to_duckdb()]):
        with pytest.warns(harness.HarnessWarning) as caught:
            read()
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, read.__code__.co_firstlineno)}


@pytest.mark.filterwarnings("default")
def test_the_command_shows_a_warning_as_one_line(positional, capfd) -> None:
    tables = [argument for name in "tu" for argument in ("--table", f"{name}={positional}")]
    assert main(["sql", "SELECT t.s, u.id FROM t JOIN u USING (id)", *tables, "--format", "csv"]) == 0
    shown = capfd.readouterr()
    assert shown.out == "s,id\na,1\n"
    file = next(iter(Path(positional, "data").rglob("*.parquet")))
    assert shown.err == (
        f"warning: Columns of files without field ids, for example {file}, are matched by position, because table "
        f"{positional} has no name mapping [iceberg 5.6]\n"
    )


OTHER_FILES = [
    pytest.param("orders.parquet", b"PAR1rest", "a Parquet file", id="parquet"),
    pytest.param("orders.csv", b"id,name\n1,a\n", "a CSV file", id="csv"),
    pytest.param("README.md", "# Größe\n".encode(), "a text file", id="readme"),
    pytest.param("package.json", b'{"name": "x"}', "a JSON file", id="json"),
    pytest.param("cut.json", b'{"format-version": 2, "tab', "a JSON file", id="cut-json"),
    pytest.param("x.avro", b"Obj\x01rest", "an Avro file", id="avro"),
    pytest.param("README.gz", gzip.compress(b"text"), "a gzip file", id="gzip"),
    pytest.param("my.duckdb", b"12345678DUCK\0\0", "a DuckDB database", id="duckdb"),
    pytest.param("image.bin", b"\x89\0\xff", "a binary file", id="binary"),
    pytest.param("nothing", b"", "an empty file", id="empty"),
    pytest.param("long.txt", b"a" * 4095 + "ä".encode(), "a text file", id="cut-character"),
]


@pytest.mark.parametrize(("name", "content", "kind"), OTHER_FILES)
def test_the_error_for_a_file_that_is_no_table_names_its_kind(tmp_path, name, content, kind) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(harness.TableNotFoundError) as caught:
        harness.open_table(str(file))
    assert str(caught.value) == (
        f"Cannot find a table: {name} is {kind}; give the directory of a table, or a metadata file of an Iceberg table "
        f"(*.metadata.json) [MetadataNotFound; table {file}, rule iceberg 1.1]"
    )
    with pytest.raises(harness.TableNotFoundError) as caught:
        harness.open_table(str(file), format_hint="delta")
    assert str(caught.value) == (
        f"Cannot find a Delta table: it is {kind}; give the directory that contains _delta_log "
        f"[TableNotFound; table {file}, rule delta L4]"
    )


@pytest.fixture
def lake(tmp_path, monkeypatch) -> None:
    """Two tables and a directory in the working directory."""
    DeltaTable.create(tmp_path / "lake/orders", {"id": "long"})
    ice = IcebergTable.create(tmp_path / "lake/events", {"id": "long"})
    ice.append(ice.write_data([{"id": 1}]))
    (tmp_path / "lake/_hidden").mkdir()
    (tmp_path / "empty/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


NOTHING = "there is no such directory or metadata file"
NEITHER = "it holds neither metadata/*.metadata.json (Iceberg) nor _delta_log (Delta)"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("lake/ordrs", f"{NOTHING}; did you mean lake/orders"),
        ("lake/Events/", f"{NOTHING}; did you mean lake/events"),
        ("lake/hidden", f"{NOTHING}; lake has events, orders"),
        ("laek", f"{NOTHING}; did you mean lake"),
        ("no/orders", f"{NOTHING}; check the path"),
        ("lake", f"{NEITHER}; there are tables in it, such as events, orders; harness list lake lists them"),
        ("lake/events/data", f"{NEITHER}; lake/events is a table"),
        ("empty/inner", f"{NEITHER}; check the path"),
        ("memory://lake/orders", f"{NOTHING}; check the path"),
    ],
)
def test_a_path_without_a_table_names_those_nearby(lake, location, reason) -> None:
    with pytest.raises(harness.TableNotFoundError) as caught:
        harness.open_table(location)
    assert str(caught.value) == f"Cannot find a table: {reason} [MetadataNotFound; table {location}]"
    with pytest.raises(harness.TableNotFoundError, match=r"Cannot find a table: .*; check the path"):
        harness.open_table(location, untrusted=True)
    for name, text in {"iceberg": "Cannot find an Iceberg table", "delta": "Cannot find a Delta table"}.items():
        with pytest.raises(harness.TableNotFoundError, match=text):
            harness.open_table(location, format_hint=name)


def test_a_file_of_a_delta_log_names_the_table(delta) -> None:
    commit = delta.directory / "_delta_log" / f"{1:020}.json"
    with pytest.raises(harness.TableNotFoundError) as caught:
        harness.open_table(str(commit))
    assert str(caught.value) == (
        f"Cannot find a table: {commit.name} is a file of a Delta table's log; give the table's directory, "
        f"{delta.directory} [MetadataNotFound; table {commit}, rule iceberg 1.1]"
    )


def test_metadata_is_read_whatever_its_file_is_called_and_damage_stays_damage(tmp_path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    content = t.metadata_path.read_bytes()
    for name, data in (("odd.json", content), ("odd", b"\n" + content), ("odd.gz", gzip.compress(content))):
        file = t.metadata_path.parent / name
        file.write_bytes(data)
        assert harness.open_table(str(file)).snapshot().to_arrow().num_rows == 1
    t.metadata_path.write_bytes(content[:50])
    with pytest.raises(harness.CorruptFileError):
        harness.open_table(str(t.metadata_path))


def test_a_refused_query_leaves_nothing_on_the_users_connection(delta) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE own (x INT)")
        with pytest.raises(harness.EngineError, match="Did you mean id"):
            harness.sql("SELECT ids, x FROM t, own", {"t": str(delta.directory)}, connection=connection)
        with pytest.raises(harness.EngineError, match='"x"'):
            harness.sql("SELECT id, xx FROM t, own", {"t": str(delta.directory)}, connection=connection)
        assert connection.execute("SHOW TABLES").fetchall() == [("own",)]


def test_spark_suggests_among_all_columns(delta, spark) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(harness.EngineError, match="Did you mean id"):
        harness.sql("SELECT idd FROM t", {"t": str(delta.directory)}, engine="spark", spark=spark)
    with pytest.raises(harness.EngineError, match="`id`"):
        harness.sql("SELECT idd FROM t", {"t": str(delta.directory)}, engine="spark", dialect="spark", spark=spark)


PASSWORD = "opensesame"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"https://me:{PASSWORD}@host/t/x.parquet?sig={PASSWORD}", "https://host/t/x.parquet"),
        (f"s3://key:{PASSWORD}@bucket/t", "s3://bucket/t"),
        (f"https://host/t?sv=1&sig={PASSWORD}, and more", "https://host/t and more"),
        (f"https://me:a@{PASSWORD}#1@host/t", "https://host/t"),
        (f"s3://key:a/{PASSWORD}@bucket/t", "s3://bucket/t"),
        (f"https://host/a b.parquet?sig={PASSWORD}", "https://host/a b.parquet"),
        (f"https://host/it's <x>?a&sig={PASSWORD}", "https://host/it's <x>?a"),
        ("http://host:80/a@b http://[::1]:80/a@b", "http://host:80/a@b http://[::1]:80/a@b"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("memory://t/st*r?/x", "memory://t/st*r?/x"),
        ("/local/t?a=b", "/local/t?a=b"),
    ],
)
def test_no_message_has_a_password_or_a_signature(text: str, cleaned: str) -> None:
    error = harness.StorageError(f"Cannot read {text}", file=text).within(table=text)
    assert (error.message, error.file, error.table) == (f"Cannot read {cleaned}", cleaned, cleaned)
    assert PASSWORD not in f"{error!r} {error}"
    error.message = f"Again: {text}"
    assert error.message == f"Again: {cleaned}"
    with pytest.warns(harness.HarnessWarning) as told:
        warn(f"Left out: {text}")
    assert str(told[0].message) == f"Left out: {cleaned}"


@pytest.mark.parametrize("part", ["a://", "://a:", "a://:", "://@", "://?", "://?=&", "a:@"])
def test_a_long_text_is_cleaned_in_the_time_that_its_length_takes(part: str) -> None:
    """Each start of a URL is examined once. Code that went back to the first start would take minutes here."""
    assert len(without_secrets("://" + part * 100_000)) <= len(part) * 100_000 + 3


def test_reprs_of_objects_contain_no_password() -> None:
    location = f"s3://me:{PASSWORD}@b/t"
    storage = open_storage(
        location, options={}, targets=(), allowed_roots=(f"{location}?sig={PASSWORD}",), outside="warn", untrusted=False
    )
    located = harness.TableLocation(catalog="c", name=("t",), location=location, metadata_location=location)
    warehouse = Warehouse(location=location, name="w", storage=storage)
    for each in (storage, storage.roots, located, warehouse):
        assert PASSWORD not in repr(each)
    assert repr(located) == "TableLocation('c.t', 's3://b/t')"
    assert repr(warehouse) == "Warehouse('s3://b/t', name='w')"


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize("kind", [IcebergTable, DeltaTable])
def test_descriptions_of_a_table_contain_no_password(tmp_path, kind, caplog) -> None:
    """Plans, descriptions, comparisons, the note and the journal of a slice, and the log contain no password."""
    import fsspec

    caplog.set_level("DEBUG", "harness")
    t = kind.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    location = f"memory://me:{PASSWORD}@{kind.__name__}"
    memory = fsspec.filesystem("memory")
    for file in (tmp_path / "t").rglob("*.*"):
        memory.pipe(f"{location}/{file.relative_to(tmp_path / 't')}", file.read_bytes())
    table = harness.open_table(location, path_map={str(tmp_path / "t"): location})
    plan = table.snapshot().plan()
    assert plan.files.column("physical").to_pylist()[0].startswith(location)
    result = harness.compare(table, table)
    table.pull(tmp_path / "slice")
    slice_files = [f.read_text("utf-8") for f in (tmp_path / "slice").glob("_harness_slice*")]
    assert len(slice_files) == 2
    said = [plan.explain(), plan.to_dict(), table.describe(), result, str(result), repr(table._source), *slice_files]
    assert [each for each in said if PASSWORD in str(each)] == []
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("scheme", ["https", "s3", "webhdfs", "sftp", "memory", "nope", "gs"])
def test_errors_of_opening_a_location_contain_no_secrets(scheme: str) -> None:
    location = f"{scheme}://me:{PASSWORD}@127.0.0.1:9/t?sig={PASSWORD}"
    for ask in (harness.open_table, harness.open_warehouse):
        with pytest.raises(harness.HarnessError) as caught:
            ask(location)
        assert PASSWORD not in f"{caught.value!r} {caught.value}"


UNKNOWN_NAMES = {
    # Suggestions come from a struct, a column, and a given table, but never from DuckDB's own names.
    "SELECT addr.city FROM t": r'"addr" not found! Did you mean address\.city or',
    "SELECT x.adress.city FROM t AS x": r"Did you mean address",
    "SELECT city FROM t": r"Did you mean address\.city\?",
    "SELECT regoin FROM t": r"Did you mean region\?",
    "SELECT x.regoin FROM t AS x": r"Did you mean region\?",
    'SELECT "address.city" FROM t': r"Did you mean the field address\.city, without quotes around the whole\?",
    "FROM pg_statements": r"There is no table pg_statements; the nearest are t \[NoSuchTable\]",
    "FROM t JOIN tt USING (region)": r"There is no table tt; the nearest are t \[",
    "FROM 'lake/none'": r"There is no table at 'lake/none': .*; check the path",
    # The text and position of DuckDB's parser error.
    "selct * from t": r'near "selct" \[Request\]\nLINE 1: selct \* from t\n        \^',
    "SELEC 1": r'near "SELEC" \[Request\]\nLINE 1: SELEC 1\n        \^',
    "SELECT sum(region FROM t": r'near "FROM" \[Request\]\nLINE 1: SELECT sum\(region FROM t\n {18,}\^',
}


@pytest.mark.parametrize(("query", "message_pattern"), UNKNOWN_NAMES.items(), ids=UNKNOWN_NAMES)
def test_hints_contain_only_names_of_the_user(query: str, message_pattern: str, tmp_path, capfd) -> None:
    t = IcebergTable.create(tmp_path / "t", {"region": "string", "address": "struct<city: string, zip: int>"})
    assert main(["sql", query, "--table", f"t={t.location}"]) == 2
    err = capfd.readouterr().err
    assert re.search(message_pattern, err), err
    assert "sqlglot" not in err
    assert "pragma" not in err


def test_hints_of_filters_and_of_a_connections_own_tables(tmp_path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"region": "string", "address": "struct<city: string, zip: int>"})
    with pytest.raises(harness.UnknownColumnError, match=r"did you mean the field address\.city, without quotes"):
        harness.open_table(t.location).snapshot().plan(where="\"address.city\" = 'x'")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE orders (x INT)")
        with pytest.raises(harness.TableNotFoundError, match="the nearest are orders"):
            harness.sql("FROM ordrs, t", {"t": t.location}, connection=connection)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nope FROM t", 'column "nope" not found'),
        ("SELECT nowhere(id) FROM t", "Function with name nowhere does not exist"),
        ("SELECT s + 1 FROM t", "No function matches"),
        ("SELECT id, count(*) FROM t", "GROUP BY"),
        ("SELECT id::NOTYPE FROM t", "NOTYPE"),
        ("SELECT (SELECT 1, 2)", "Subquery returns 2 columns"),
        ("FROM 'nothing-here.parquet'", "nothing-here"),
    ],
)
def test_a_query_that_duckdb_refuses_is_an_engine_error_of_one_line(delta, query, message) -> None:
    table = harness.open_table(str(delta.directory))
    for run in (lambda: harness.sql(query, {"t": table}), lambda: harness.connect({"t": table}).sql(query)):
        with pytest.raises(harness.EngineError, match=message) as caught:
            run()
        assert str(caught.value).startswith("DuckDB cannot run the query: ")
        assert "\n" not in str(caught.value)
        assert "LINE" not in str(caught.value)
        assert isinstance(caught.value.__cause__, duckdb.Error)
        assert caught.value.__cause__.__traceback__ is None
