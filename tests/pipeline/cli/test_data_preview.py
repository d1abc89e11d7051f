from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.support.dataset_files import write_voc


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path / "data", names=tuple("abcdefgh"))


CONFIG = Path(__file__).parents[3] / "examples" / "digits" / "pipeline.config"


def preview(capsys, tmp_path, *arguments):
    words = ["data", "preview", str(CONFIG), "-o", str(tmp_path / "out")]
    code = main([*words, *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_preview_of_a_folder_prints_its_seed(voc, tmp_path, capsys, monkeypatch):
    code, told = preview(capsys, tmp_path, "--data", voc, "--seed", 4, "-n", 3)
    assert code == 0, told
    assert told["seed"] == 4 and len(told["source_ids"]) == 3
    assert (tmp_path / "out" / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert "seed 4" in (tmp_path / "out" / "index.html").read_text()
    assert not (tmp_path / "out" / ".examples").exists()


def test_a_preview_takes_one_source(voc, tmp_path, capsys):
    code, told = preview(capsys, tmp_path, "--data", voc, "--examples", voc)
    assert code == 2 and "found both" in told["message"]
