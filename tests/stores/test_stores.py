"""Tables in S3, Azure, and Google Cloud servers: the same rows as on local disk, no HEAD, and failures in one line."""

import itertools
import json
from pathlib import Path
from typing import Any

import answering_server
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import AZURE_ACCOUNT, AZURE_KEY, BUCKET, s3_store, upload, upload_to_google

import harness
from harness.storage.stores import Storage
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.external


_numbers = itertools.count()
SCHEMA = {"id": "long", "name": "string"}
ROWS = [{"id": i, "name": f"name {i}"} for i in range(40)]


def iceberg(folder: Path) -> Path:
    table = IcebergTable.create(folder, SCHEMA, recorded_location=f"s3://{BUCKET}/{folder.name}")
    for start in range(0, 40, 10):
        table.append(table.write_data(ROWS[start : start + 10]))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 3}])])
    return folder


def delta(folder: Path) -> Path:
    table = DeltaTable.create(folder, SCHEMA)
    for start in range(0, 40, 10):
        table.append(table.write_data(ROWS[start : start + 10]))
    return folder


@pytest.fixture
def put(options: dict[str, Any]) -> Any:
    """Return a function that uploads a local table to S3 and returns its location there."""

    def upload_(folder: Path) -> str:
        upload(s3_store(options), folder, folder.name)
        return f"s3://{BUCKET}/{folder.name}"

    return upload_


@pytest.fixture
def name(tmp_path: Path) -> Path:
    return tmp_path / f"t{next(_numbers)}"


def rows(location: str | Path, **more: Any) -> list[tuple[Any, ...]]:
    table = harness.open_table(str(location), **more)
    return sorted(harness.sql("SELECT * FROM t", {"t": table}).fetchall())


@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_table_on_s3(name: Path, put: Any, options: dict[str, Any], make: Any) -> None:
    location, local = put(make(name)), rows(name)
    assert rows(location, storage_options=options) == local
    assert rows(location.replace("s3:", "s3a:"), storage_options=options) == local
    pyiceberg = {"s3.endpoint": options["endpoint_url"], "s3.access-key-id": "k", "s3.secret-access-key": "s"}
    assert rows(location, storage_options=pyiceberg) == local
    there, here = harness.open_table(location, storage_options=options), harness.open_table(str(name))
    assert harness.compare(there, here, engines=("oracle", "duckdb")).equal


@pytest.mark.parametrize("make", [iceberg, delta])
def test_every_file_is_read_by_one_get_without_a_head(name, put, options, make):
    location, local = put(make(name)), rows(name)
    with answering_server.server(lambda number, path: None, options["endpoint_url"]) as asked:
        assert rows(location, storage_options={**options, "endpoint_url": asked.endpoint}) == local
    assert asked.methods() == {"GET"}
    data = [path for _, path in asked.requests if path.endswith(".parquet") and "deletes" not in path]
    assert len(data) == len(set(data)) == 4  # for a small file, its end is the whole file


def test_a_scan_does_not_read_footers_again(name: Path, put: Any, options: dict[str, Any]) -> None:
    delta(name)
    for number, file in enumerate(sorted(name.glob("*.parquet"))):
        values = pa.table(
            {"id": range(number * 10_000, (number + 1) * 10_000), "name": [f"{i:064}" for i in range(10_000)]}
        )
        pq.write_table(values, file, compression="none", use_dictionary=False, row_group_size=5_000)
    size = sum(file.stat().st_size for file in name.glob("*.parquet"))
    for commit in name.glob("_delta_log/*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    location = put(name)
    with answering_server.server(lambda number, path: None, options["endpoint_url"]) as asked:
        table = harness.open_table(location, storage_options={**options, "endpoint_url": asked.endpoint})
        before = len(asked.requests)
        assert harness.sql("SELECT count(id), sum(id)::BIGINT FROM t", {"t": table}).fetchall() == [
            (40_000, 799_980_000)
        ]
        data = [path for _, path in asked.requests[before:] if path.endswith(".parquet")]
    assert size > 2_000_000
    assert len(data) <= 4 * (1 + 2)  # one request for each footer, and one for a column in two row groups


KEYS = ["a b", "a%20b", "a#b", "é", "a*b", "p=x%2Fy", "a~b", "a?b", "a+b", 'a"b', "a[b]", "a&b"]


@pytest.mark.parametrize("key", KEYS)
def test_names_of_objects_are_taken_as_they_are(options: dict[str, Any], key: str) -> None:
    import obstore

    obstore.put(s3_store(options), f"names/{key}/f", key.encode())
    storage, path = Storage(options), f"s3://{BUCKET}/names/{key}"
    assert storage.read(f"{path}/f") == key.encode()
    assert storage.read(f"{path}/f", offset=1) == key.encode()[1:]
    assert storage.names(path) == ("f",)
    assert (storage.is_directory(path), storage.exists(path), storage.exists(f"{path}/f")) == (True, False, True)
    assert storage.size(f"{path}/f") == len(key.encode())
    assert key in storage.directories(f"s3://{BUCKET}/names")


def test_names_that_no_client_can_request(options: dict[str, Any]) -> None:
    with pytest.raises(harness.RequestError, match="its name has an empty part"):
        Storage(options).read(f"s3://{BUCKET}/t//f")


def test_empty_files_and_ranges_behind_the_end(options: dict[str, Any]) -> None:
    import obstore

    obstore.put(s3_store(options), "small/empty", b"")
    obstore.put(s3_store(options), "small/full", b"0123456789")
    storage, empty, full = Storage(options), f"s3://{BUCKET}/small/empty", f"s3://{BUCKET}/small/full"
    assert (storage.read(empty), storage.size(empty), storage.exists(empty), storage.end(empty, 8)) == (
        b"",
        0,
        True,
        b"",
    )
    assert [storage.read(full, offset=at, length=4) for at in (0, 8, 10, 20)] == [b"0123", b"89", b"", b""]
    assert (storage.end(full, 4), storage.end(full, 40)) == (b"6789", b"0123456789")
    assert storage.read(full, length=0) == b""


def test_options_in_the_project_and_on_the_command_line(name, put, options, monkeypatch, tmp_path):
    from harness.cli import main

    location = put(delta(name))
    words = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    assert main(["info", location, *words]) == 0
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.harness.stores."s3://{BUCKET}"]\nendpoint = "{options["endpoint_url"]}"\nkey = "k"\nsecret = "s"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert main(["info", location]) == 0
    assert harness.sql("SELECT count(*) FROM t", {"t": location}).fetchall() == [(40,)]


def test_the_environment_and_profiles(name, put, options, monkeypatch, tmp_path):
    location, local = put(delta(name)), rows(name)
    (tmp_path / "aws-config").write_text(f"[profile dev]\nendpoint_url = {options['endpoint_url']}\n")
    (tmp_path / "aws-credentials").write_text("[dev]\naws_access_key_id = k\naws_secret_access_key = s\n")
    assert rows(location, storage_options={"profile": "dev"}) == local
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint_url"])
    assert rows(location) == local


@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_table_on_azure(name: Path, azure: str, make: Any) -> None:
    from obstore.store import AzureStore

    store = AzureStore(
        BUCKET, account_name=AZURE_ACCOUNT, account_key=AZURE_KEY, endpoint=azure, client_options={"allow_http": True}
    )
    upload(store, make(name), name.name)
    local = rows(name)
    options = {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY, "endpoint": azure}
    moved = {f"s3://{BUCKET}/{name.name}": f"az://{BUCKET}/{name.name}"} if make is iceberg else None
    assert rows(f"az://{BUCKET}/{name.name}", storage_options=options, path_map=moved) == local
    text = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={azure}"
    location = f"abfss://{BUCKET}@{AZURE_ACCOUNT}.dfs.core.windows.net/{name.name}"
    moved = {f"s3://{BUCKET}/{name.name}": location} if make is iceberg else None
    assert rows(location, storage_options={"connection_string": text}, path_map=moved) == local


@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_table_on_google_cloud(name: Path, gcs: str, make: Any) -> None:
    upload_to_google(gcs, make(name), name.name)
    options = {"endpoint": gcs, "anonymous": True}
    moved = {f"s3://{BUCKET}/{name.name}": f"gs://{BUCKET}/{name.name}"} if make is iceberg else None
    assert rows(f"gs://{BUCKET}/{name.name}", storage_options=options, path_map=moved) == rows(name)


SECRETS = {"key": "AKIASECRET", "secret": "AKIASECRET"}


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")


@pytest.mark.parametrize(
    ("code", "status", "cause", "words"),
    [
        ("NoSuchBucket", 404, "NoSuchBucket", "there is no such bucket"),
        ("AccessDenied", 403, "Forbidden", "set access_key_id"),
        ("InvalidAccessKeyId", 403, "Forbidden", "does not know the access key"),
        ("SignatureDoesNotMatch", 403, "Forbidden", "set secret_access_key"),
        ("RequestTimeTooSkewed", 403, "ClockSkew", "set the clock"),
        ("ExpiredToken", 400, "ExpiredCredentials", "set session_token"),
        ("AuthorizationHeaderMalformed", 400, "OtherRegion", "set region"),
        ("SlowDown", 503, "Throttled", "throttling or busy"),
        ("InternalError", 500, "Storage", "InternalError"),
    ],
)
def test_a_table_of_a_store_that_refuses(code: str, status: int, cause: str, words: str) -> None:
    with (
        answering_server.server(answering_server.error(code, status)) as asked,
        pytest.raises(harness.StorageError) as caught,
    ):
        harness.open_table("s3://lake/t", storage_options={**SECRETS, "endpoint": asked.endpoint, "max_retries": 1})
    assert caught.value.cause == cause
    assert words in caught.value.message
    assert "AKIASECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_store_that_nobody_answers_for() -> None:
    with pytest.raises(harness.StorageError, match=r"does not answer .*; set endpoint") as caught:
        harness.open_table(
            "s3://lake/t", storage_options={**SECRETS, "endpoint": "http://127.0.0.1:1", "max_retries": 0}
        )
    assert caught.value.cause == "Unreachable"


def test_throttled_requests_are_repeated() -> None:
    def answer(number: int, path: str) -> tuple[int, bytes]:
        return (503, b"<Error><Code>SlowDown</Code></Error>") if number < 2 else (200, b"0123")

    with answering_server.server(answer) as asked:
        assert Storage({**SECRETS, "endpoint": asked.endpoint}).read("s3://lake/f") == b"0123"
        assert len(asked.requests) == 3


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(number: int, path: str) -> tuple[int, bytes]:
        return 404, b""

    with answering_server.server(answer) as asked:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", asked.endpoint)
        with pytest.raises(harness.StorageError) as caught:
            Storage({"endpoint": "http://127.0.0.1:1", "max_retries": 0}).read("s3://lake/f")
    assert caught.value.cause == "NoCredentials"
    assert "anonymous=true" in caught.value.message
