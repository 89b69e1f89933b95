"""Options of a bucket in a project's configuration and in the user's own, which options of a call override."""

from pathlib import Path
from typing import Any

import pytest

from harness import RequestError
from harness.storage.configuration import with_configured
from harness.storage.option_names import StoreKind


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes the user's own file, and the file of the project around the working directory."""
    (tmp_path / "project/tests").mkdir(parents=True)
    (tmp_path / "harness").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project/tests")

    def write(user_file: str = "", project: str = "") -> None:
        (tmp_path / "harness/config.toml").write_text(user_file)
        (tmp_path / "project/pyproject.toml").write_text(project)

    return write


def lake(**options: Any) -> dict[str, str]:
    return with_configured(StoreKind.S3, "s3://lake", options)


LAKE = '[tool.harness.stores."s3a://lake/"]\n'


@pytest.mark.parametrize(
    ("user_file", "project_file", "options", "expected"),
    [
        ("", "", {}, {}),
        ("", LAKE + 'region = "a"', {}, {"region": "a"}),
        (LAKE + 'region = "a"\ntimeout = 2', LAKE + '"s3.region" = "b"', {}, {"region": "b", "timeout": "2"}),
        (LAKE + 'region = "a"', "", {"aws_region": "c"}, {"region": "c"}),
        (LAKE.replace("lake", "other") + 'region = "a"', "", {}, {}),
        (LAKE + 'key = "k"\nsecret = "s"\ntoken = "t"', "", {"profile": "p"}, {"profile": "p"}),
        (LAKE + 'endpoint = "http://h"', "", {}, {"endpoint": "http://h"}),
        (
            "",
            LAKE + 'endpoint = "http://h"\nkey = "k"\nsecret = "s"',
            {},
            {"endpoint": "http://h", "access_key_id": "k", "secret_access_key": "s"},
        ),
        ("", LAKE + 'endpoint = "http://h"\nanon = true', {}, {"endpoint": "http://h", "anonymous": "true"}),
        ("", LAKE + 'endpoint = "http://h"\nanon = true', {"profile": "p"}, {"profile": "p"}),
    ],
)
def test_options_that_apply_to_a_bucket(say, user_file, project_file, options, expected):
    say(user_file, project_file)
    assert lake(**options) == expected


@pytest.mark.parametrize(
    ("project", "message"),
    [
        (LAKE + 'endpoint = "http://evil"', "a project that sets this option must also set"),
        (LAKE + 'endpoint = "http://evil"\nprofile = "work"', "a project that sets this option"),
        (LAKE + 'proxy_url = "http://evil"', "a project that sets this option"),
        (LAKE + 'endpoint = "http://evil"\nrole_arn = "r"', "a project that sets this option must also set"),
        (LAKE + "verify = false", "a project that sets this option"),
        (LAKE + 'regoin = "x"', "S3 has no option regoin; did you mean region?"),
        ('[tool.harness.stores.lake]\nregion = "x"', "expected a table of options for a scheme and bucket"),
        (
            '[tool.harness.stores."s3://lake/t"]\nregion = "x"',
            "expected a table of options for a scheme and bucket",
        ),
        ('[tool.harness]\nstores = "x"', "expected a table"),
        ("[tool", "Cannot read the configuration"),
    ],
)
def test_options_that_a_project_cannot_set(say: Any, project: str, message: str) -> None:
    say(project=project)
    with pytest.raises(RequestError) as caught:
        lake()
    assert message in caught.value.message
    assert caught.value.cause == "StoreMisconfigured"
    assert caught.value.file.endswith("project/pyproject.toml")
