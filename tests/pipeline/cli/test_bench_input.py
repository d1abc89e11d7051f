"""The verb that measures the input of a training."""

from __future__ import annotations

import pytest

from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text, write_examples


def test_each_stage_and_what_bounds_the_run_are_told_to_people_and_scripts(tmp_path, cli):
    config, examples = tmp_path / "pipeline.config", write_examples(tmp_path / "examples")
    config.write_text(config_text(backbone=PLAIN))
    words = ["bench", "input", config, "--examples", examples, "--images", "4", "--seconds", "0.05"]
    text = cli(*words)
    for expected in ("read", "decode", "augment", "bare decoding", "kept in memory", "bound by the step"):
        assert expected in text
    found = cli.json(*words, "--no-step", "--set", "train_config.batch_size=3")
    assert found["batch_size"] == 3 and found["step"] is None and found["bound"] is None
    whole, bare = (found[name]["images_per_second"] for name in ("whole", "bare"))
    assert found["of_bare"] == pytest.approx(whole / bare)


def test_wrong_arguments_are_one_message(cli):
    for rest, message in (
        ([], "expected one pipeline.config"),
        (["a.config", "b.config"], "found 2"),
        (["gone.config"], "gone.config"),
    ):
        assert message in cli.refused("bench", "input", *rest)
