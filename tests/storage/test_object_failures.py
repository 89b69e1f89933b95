"""What object stores answer is one line that says what to set, and holds nothing secret."""

import pytest

from harness import StorageError
from harness.storage.object_client import told
from harness.storage.option_names import StoreKind

URL = "http://127.0.0.1:5555/lake/t/f"


def answer(status: int, code: str = "") -> str:
    body = f"<Error><Code>{code}</Code><Message>key AKIASECRET</Message></Error>" if code else ""
    return (
        f"Generic S3 error: Error performing GET {URL}?X-Amz-Signature=AKIASECRET in 2ms - "
        f"Server returned non-2xx status code: {status} Reason: {body}\n\nDebug source:\nAKIASECRET"
    )


@pytest.mark.parametrize(
    ("text", "listing", "cause", "message"),
    [
        (answer(404, "NoSuchBucket"), False, "NoSuchBucket", "there is no such bucket; check its name, or set"),
        (answer(404), True, "NoSuchBucket", "there is no such bucket"),
        (answer(403, "AccessDenied"), True, "Forbidden", "it is forbidden, with these credentials; set access_key_id"),
        (answer(403, "AccessDenied"), False, "Denied", "it is forbidden, or not there, with these cred"),
        (answer(403, "InvalidAccessKeyId"), False, "Forbidden", "the store does not know the access key; set acc"),
        (answer(403, "SignatureDoesNotMatch"), False, "Forbidden", "set secret_access_key"),
        (answer(403, "RequestTimeTooSkewed"), False, "ClockSkew", "the clock of this machine differs from the store's"),
        (answer(400, "ExpiredToken"), False, "ExpiredCredentials", "have expired; get new ones, and set session_token"),
        (answer(400, "AuthorizationHeaderMalformed"), False, "OtherRegion", "in another region or at another endpoint"),
        (answer(301), False, "OtherRegion", "set region or endpoint (301)"),
        (answer(503, "SlowDown"), False, "Throttled", "throttled or busy, also when asked again; try later (SlowDown)"),
        (answer(429), False, "Throttled", "try later (429)"),
        (answer(500, "InternalError"), False, "Storage", "it answers with an error (InternalError)"),
        (
            f"Generic S3 error: Error performing GET {URL} in 1ms - HTTP error: error sending request\n"
            "Connection refused AKIASECRET",
            False,
            "Unreachable",
            "http://127.0.0.1:5555 does not answer (connection refused); set endpoint, or try again",
        ),
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 5s AKIASECRET",
            False,
            "NoCredentials",
            "there are no credentials in options, environment, profiles or a role of this machine; set access_key_id",
        ),
    ],
)  # fmt: skip
def test_answers(text: str, listing: bool, cause: str, message: str) -> None:
    error = told(Exception(text), "s3://lake/t/f", StoreKind.S3, listing=listing)
    assert isinstance(error, StorageError)
    assert error.cause == cause
    assert error.message.startswith("Cannot read from the store: ")
    assert message in error.message
    assert error.file == "s3://lake/t/f"
    assert "AKIASECRET" not in str(error)


@pytest.mark.parametrize("text", [answer(404, "NoSuchKey"), answer(404), answer(404, "BlobNotFound")])
def test_what_is_not_there(text: str) -> None:
    assert isinstance(told(Exception(text), "s3://lake/t/f", StoreKind.S3), FileNotFoundError)
