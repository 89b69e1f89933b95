"""What servers refuse is one line that says what to set; what may work when asked again is asked again."""

import answering_server
import pytest

import harness
from harness.storage.stores import Storage

pytestmark = pytest.mark.stores
KEYS = {"key": "AKIASECRET", "secret": "AKIASECRET"}


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
        ("SlowDown", 503, "Throttled", "throttled or busy"),
        ("InternalError", 500, "Storage", "InternalError"),
    ],
)
def test_a_table_of_a_store_that_refuses(code: str, status: int, cause: str, words: str) -> None:
    with (
        answering_server.server(answering_server.error(code, status)) as asked,
        pytest.raises(harness.StorageError) as caught,
    ):
        harness.open_table("s3://lake/t", storage_options={**KEYS, "endpoint": asked.endpoint, "max_retries": 1})
    assert caught.value.cause == cause
    assert words in caught.value.message
    assert "AKIASECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_store_that_nobody_answers_for() -> None:
    with pytest.raises(harness.StorageError, match=r"does not answer .*; set endpoint") as caught:
        harness.open_table("s3://lake/t", storage_options={**KEYS, "endpoint": "http://127.0.0.1:1", "max_retries": 0})
    assert caught.value.cause == "Unreachable"


def test_what_is_throttled_is_asked_for_again() -> None:
    def answer(number: int, path: str) -> tuple[int, bytes]:
        return (503, b"<Error><Code>SlowDown</Code></Error>") if number < 2 else (200, b"0123")

    with answering_server.server(answer) as asked:
        assert Storage({**KEYS, "endpoint": asked.endpoint}).read("s3://lake/f") == b"0123"
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
