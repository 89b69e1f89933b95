"""`harness cache`, and where commands keep what they decoded."""

from __future__ import annotations

import json

from harness.cli import main
from harness.storage.decoded import DIRECTORY
from harness.storage.decoded_folder import Folder


def test_info_says_what_there_is_and_clear_removes_it(tmp_path, capsys):
    Folder(str(tmp_path)).put("0" * 40, b"entry")
    for action in ("info", "clear"):
        assert main(["cache", action, "--cache-dir", str(tmp_path), "--format", "json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["kind"], said["path"], said["entries"], said["size"]) == (
            "cache",
            str(tmp_path / "harness-1"),
            1,
            5,
        )
    assert main(["cache", "info", "--cache-dir", str(tmp_path)]) == 0
    assert "entries: 0" in capsys.readouterr().out


def test_the_environment_may_say_which_and_somebody_must(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    assert main(["cache", "info"]) == 0
    monkeypatch.delenv(DIRECTORY)
    assert main(["cache", "info"]) == 2
    assert "say --cache-dir, or set HARNESS_CACHE_DIR" in capsys.readouterr().err
