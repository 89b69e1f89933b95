"""Secrets in texts from outside: errors of clients, answers of servers, and URLs with a signature."""

import traceback
from http.client import BadStatusLine

import pytest

from harness.errors import HarnessError, StorageError, raise_from, without_secrets
from harness.metadata.catalogs.pyiceberg import translate_errors
from harness.storage.stores import _storage_errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET https://h/t?X-Amz-Signature=S failed", "GET https://h/t failed"),
        ("v3.metadata.json?X-Amz-Credential=a&X-Amz-Signature=S is cut", "v3.metadata.json is cut"),
        ("t.json?sv=1&sig=S", "t.json?sv=1"),
        ("header was Authorization: Bearer abc123def456", "header was Authorization: Bearer …"),
        ("got Basic dXNlcjpwYXNz1234", "got Basic …"),
        ("token eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0 expired", "token … expired"),
        ("the key s3cr3t-known is refused", "the key … is refused"),
        # Neither of these is a secret.
        ("Basic authentication is missing", "Basic authentication is missing"),
        ("abfss://container@account/t", "abfss://container@account/t"),
        ("region=eu&name=x", "region=eu&name=x"),
    ],
)
def test_texts_for_people(text, expected):
    assert without_secrets(text, ["s3cr3t-known"]) == expected


SIGNED = "https://user:SECRET2@h/t?X-Amz-Signature=SECRET1"  # a constant, since tracebacks show source lines


class ClientError(Exception):
    """A client's error with a URL among its attributes, and another error as its cause."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.request_url = SIGNED


def fail(text: str) -> None:
    try:
        raise OSError(SIGNED)
    except OSError as error:
        raise ClientError(text) from error


def everything(error: BaseException) -> str:
    """Return the texts of an error and of all errors in its chain, and its traceback."""
    found, waiting = ["".join(traceback.format_exception(error))], [error]
    while waiting:
        each = waiting.pop()
        found += [str(each), repr(each), repr(vars(each))]
        waiting += [inner for inner in (each.__cause__, each.__context__) if inner is not None]
    return "\n".join(found)


@pytest.mark.parametrize(
    "around",
    [
        lambda: _storage_errors("https://h/t", {"client_kwargs": {"aws_secret": "SECRET3-of-the-user"}}),
        lambda: translate_errors("prod", "https://h", "its tables", ["SECRET3-of-the-user"]),
    ],
    ids=["store", "catalog"],
)
@pytest.mark.parametrize(
    "text",
    [
        "401: no such token SECRET3-of-the-user",
        "x" * 190 + " SECRET3-of-the-user",  # the text is cut in the middle of the secret
        "403, url='https://h/t?X-Amz-Signature=SECRET1'",
        "echo: {'Authorization': 'Bearer SECRET1234567'}",
    ],
)
def test_nothing_behind_an_error_holds_a_secret(around, text):
    with pytest.raises(HarnessError) as caught, around():
        fail(text)
    assert "SECRET" not in everything(caught.value)
    cause = caught.value.__cause__
    assert cause is not None
    assert (type(cause).__name__, type(cause.__cause__).__name__) == ("ClientError", "OSError")


def test_a_circle_of_errors_ends():
    first, second = ValueError(SIGNED), ClientError("b")
    first.__context__, second.__context__ = second, first
    with pytest.raises(StorageError) as caught:
        raise_from(StorageError("failed"), first)
    assert "SECRET" not in everything(caught.value)


def test_an_answer_that_is_no_http_is_not_shown():
    with pytest.raises(StorageError, match="BadStatusLine") as caught, translate_errors("prod", "https://h", "a table"):
        raise BadStatusLine('{"s3.secret-access-key": "SECRET"}')
    assert "SECRET" not in str(caught.value)
