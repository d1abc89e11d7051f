"""A search from settings to the winner's file, with what stands for the steps and the trainings."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from detection_core.artifacts.blessing import write_blessing
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from pipeline.settings.settings_file import load_settings
from pipeline.tuning.settings_search import check_space, tune, validation_overrides
from pipeline.tuning.space import Parameter, Space
from pipeline.tuning.tuner import TunerOptions
from tests.pipeline.conftest import DIGITS
from tests.support.cases import refused
from tests.support.run_records import record, step

SETTINGS, CONFIG = (str(DIGITS / name) for name in ("settings.yaml", "pipeline.config"))
CLIP = "train_config.gradient_clipping_by_norm"
SPACE = Space(parameters={CLIP: Parameter(low=0.0, high=1.0)}, pruner="none")
FAKE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
x = json.loads((folder / "job.json").read_text())["overrides"]["train_config.gradient_clipping_by_norm"]
run = folder / "model_run"
run.mkdir(exist_ok=True)
(folder / "model").mkdir(exist_ok=True)
(run / "validation.jsonl").write_text(json.dumps({"step": 1, "score": 1 - abs(x - 0.3)}) + "\\n")
"""


@pytest.fixture
def settings(tmp_path):
    overrides = [f"workspace={tmp_path}/ws", f"data.path={tmp_path}"]
    return load_settings(SETTINGS, overrides)


@pytest.fixture
def steps(tmp_path):
    """A run of the steps before Trainer."""
    made = {"example_gen": "examples", "config_gen": "pipeline_config", "data_validator": "blessing"}
    outputs = {name: {output: str(tmp_path / output)} for name, output in made.items()}
    for output in made.values():
        (tmp_path / output).mkdir()
    (tmp_path / "pipeline_config" / "pipeline.config").write_text("model {}")
    write_blessing(str(tmp_path / "blessing"), True, [])
    return record(*(step(name, outputs=found) for name, found in outputs.items()), pipeline_name="digits")


def options(trials=5):
    command = [sys.executable, "-c", FAKE]
    return TunerOptions(trials=trials, poll_seconds=0.02, command=lambda folder: [*command, folder])


def test_the_winner_becomes_a_file_of_overrides(tmp_path, settings, steps):
    found = tune(settings, SPACE, str(tmp_path / "out"), options(), run_steps=lambda _: steps)
    assert len(found.trials) == 5
    best = max(found.trials, key=lambda t: t.score or 0.0)
    assert found.best == best
    written = yaml.safe_load(Path(found.overrides).read_text())
    assert written == {"train_config.validation": {"every_steps": 220}, **best.overrides}
    job = json.loads((tmp_path / "out" / "trials" / f"{best.number:04d}" / "job.json").read_text())
    assert job["overrides"] == written, "every trial is validated"
    assert job["examples"] == str(tmp_path / "examples") and job["stop_reasons"] == ""
    again = load_settings(SETTINGS, [f"data.path={tmp_path}"], override_files=[found.overrides])
    assert again.model.override_files == [found.overrides]


def test_a_search_goes_on_and_another_is_not_mixed_with_it(tmp_path, settings, steps):
    folder = str(tmp_path / "out")
    first = tune(settings, SPACE, folder, options(3), run_steps=lambda _: steps)
    more = tune(settings, SPACE, folder, options(4), run_steps=lambda _: steps)
    assert more.trials[:3] == first.trials and len(more.trials) == 4
    other = Space(parameters={CLIP: Parameter(low=0.0, high=2.0)}, pruner="none")
    with pytest.raises(ConfigError, match=r"space changed.*another --output"):
        tune(settings, other, folder, options(5), run_steps=lambda _: steps)


def test_what_the_config_does_not_take_or_the_settings_set_is_refused_before_anything_runs(
    settings, tmp_path
):
    for name, parameter, message in (
        ("train_config.no_such", Parameter(low=1, high=2), "no_such"),
        ("train_config.batch_size", Parameter(choices=(4, "many")), "batch_size"),
    ):
        refused(ConfigError, message, check_space, settings, Space(parameters={name: parameter}))
    settings = load_settings(SETTINGS, [f"data.path={tmp_path}", f"train.overrides.{CLIP}=3"])
    with pytest.raises(ConfigError, match=rf"{CLIP}: expected a field that is searched not to be set"):
        check_space(settings, SPACE)


def test_a_validation_of_ones_own_stays():
    config = load_pipeline_config(CONFIG)
    assert validation_overrides(config) == {"train_config.validation": {"every_steps": 220}}
    for own in ({"train_config.validation": {}}, {"eval_config.eval_interval_secs": 60}):
        assert validation_overrides(apply_overrides(config, own)) == {}
