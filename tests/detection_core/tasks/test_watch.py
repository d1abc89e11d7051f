"""Following the checkpoints of another training: each new one, none twice, none that is gone."""

import logging
import shutil
import threading
import time
from types import SimpleNamespace

import pytest

from detection_core.artifacts.model_run import VALIDATIONS
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError, DataError
from detection_core.tasks.evaluate import plan_evaluation
from detection_core.tasks.watch import CHECKPOINTS, WatchOptions, watch
from tests.support.detectors import train_below
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text, write_examples

pytestmark = pytest.mark.slow

STEPS = 6
QUICK = WatchOptions(timeout_minutes=0.5, poll_seconds=0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished training."""
    root = tmp_path_factory.mktemp("watched")
    average = {"train_config.optimizer.use_moving_average": True, "eval_config.use_moving_averages": True}
    config = apply_overrides(parse_pipeline_config(config_text(STEPS, PLAIN)), average)
    config = point_at_examples(config, str(write_examples(root / "examples")), eval_split="train")
    train_below(root, config, log_every=2, progress=lambda update: None)
    return SimpleNamespace(root=root, folder=next((root / "work").iterdir()), config=config)


def test_the_last_checkpoint_of_a_finished_training_measures_as_what_it_wrote(trained, tmp_path):
    [line] = watch(str(trained.root / "work"), str(tmp_path / "watched"), QUICK)
    assert line.step == STEPS
    places = {"model_path": str(trained.root / "model"), "evaluation_dir": str(tmp_path / "evaluation")}
    written = plan_evaluation(config=trained.config, **places).run()
    assert written.metrics == pytest.approx({n: line.metrics[n] for n in written.metrics}, abs=1e-5)
    assert list((tmp_path / "watched" / "logs" / "eval").iterdir())
    assert [line.step for line in watch(str(trained.folder), str(tmp_path / "watched"), QUICK)] == [STEPS]


def test_a_training_in_another_thread_is_followed_to_its_last_step(trained, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    work, output = tmp_path / "work", tmp_path / "watched"
    there = sorted((trained.folder / CHECKPOINTS).glob("ckpt-*.index"))
    assert [path.stem for path in there] == ["ckpt-4", "ckpt-5", "ckpt-6"]

    def put(step: int) -> None:
        for path in sorted((trained.folder / CHECKPOINTS).glob(f"ckpt-{step}.*")):
            shutil.copyfile(path, work / CHECKPOINTS / path.name)

    def go_on() -> None:
        time.sleep(0.05)  # the training has not begun when it is first looked for
        (work / CHECKPOINTS).mkdir(parents=True)
        shutil.copyfile(trained.folder / "pipeline.config", work / "pipeline.config")
        put(4)
        while not VALIDATIONS.read_whole_lines(str(output)):
            time.sleep(0.02)
        # One that is removed while it is copied has an index and nothing to it.
        shutil.copyfile(there[1], work / CHECKPOINTS / there[1].name)
        (work / CHECKPOINTS / there[0].name).unlink()
        time.sleep(0.1)
        put(6)

    other = threading.Thread(target=go_on, daemon=True)
    other.start()
    lines = watch(str(work), str(output), QUICK)
    other.join()
    assert [line.step for line in lines] == [4, 6]
    assert [line.step for line in VALIDATIONS.read(str(output))] == [4, 6]
    assert (work / CHECKPOINTS / there[1].name).exists(), "what another process owns is left alone"


def test_what_is_no_training_or_several_is_refused_and_one_without_news_left(trained, tmp_path, caplog):
    quick = WatchOptions(timeout_minutes=0.001, poll_seconds=0.01)
    with pytest.raises(DataError, match="expected a training to watch, found none"):
        watch(str(tmp_path / "nothing"), str(tmp_path / "watched"), quick)
    for name in ("one", "two"):
        (tmp_path / "work" / name).mkdir(parents=True)
        shutil.copyfile(trained.folder / "pipeline.config", tmp_path / "work" / name / "pipeline.config")
    with pytest.raises(ConfigError, match=r"found 2: .*one, .*two; name one"):
        watch(str(tmp_path / "work"), str(tmp_path / "watched"), quick)
    (tmp_path / "work" / "one" / CHECKPOINTS).mkdir()
    assert watch(str(tmp_path / "work" / "one"), str(tmp_path / "watched"), quick) == []
    assert "no new checkpoint" in caplog.text
