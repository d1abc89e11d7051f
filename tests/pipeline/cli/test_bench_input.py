"""The verb that measures the input of a training."""

from __future__ import annotations

import json

import pytest

from pipeline.cli.parser import main
from tests.support.tiny_training import config_text, write_examples

QUICK = ("--images", "4", "--seconds", "0.05")


@pytest.fixture
def words(tmp_path):
    (tmp_path / "pipeline.config").write_text(config_text())
    examples = write_examples(tmp_path / "examples")
    return ["bench", "input", str(tmp_path / "pipeline.config"), "--examples", str(examples), *QUICK]


def test_each_stage_and_what_bounds_the_run_are_told(words, capsys):
    assert main(words) == 0
    text = capsys.readouterr().out
    for expected in ("read", "decode", "augment", "bare decoding", "kept in memory", "bound by the step"):
        assert expected in text


def test_a_script_gets_numbers(words, capsys):
    assert main([*words, "--no-step", "--set", "train_config.batch_size=3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["batch_size"] == 3 and found["step"] is None and found["bound"] is None
    assert found["of_bare"] == pytest.approx(
        found["whole"]["images_per_second"] / found["bare"]["images_per_second"]
    )


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ([], "expected one pipeline.config"),
        (["a.config", "b.config"], "found 2"),
        (["gone.config"], "gone.config"),
    ],
)
def test_wrong_arguments_are_one_message(rest, message, capsys):
    assert main(["bench", "input", *rest]) == 2
    assert message in capsys.readouterr().err
