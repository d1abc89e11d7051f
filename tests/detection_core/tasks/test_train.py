"""The train task on a tiny detector and drawn examples: what it writes, resuming, warm start, averages."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import TRAIN_REPORT
from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError, ModelError
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.ssd.scoped_names import scoped_variables
from detection_core.progress import ProgressUpdate
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.fitting.work_folder import ResumeOptions
from detection_core.tasks.train import TrainReport, train
from tests.support.cases import refused
from tests.support.detectors import trained
from tests.support.field_checkpoints import write_named_checkpoint
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import MOBILENET, config_text, write_examples

RECIPE = """
train_config {
  num_epochs: 3 close_mosaic_epochs: 1 mixing_pool_size: 4
  multi_scale { scale: [0.5, 1] steps_per_scale: 1 }
  freeze_backbone_stages: 1 backbone_rate_decay: 0.8
  data_augmentation_options { mosaic { height: 128 width: 128 fit: KEEP_ASPECT_RATIO } }
  data_augmentation_options { large_scale_jitter { height: 64 width: 64 scale_min: 0.5 } }
  optimizer { momentum_optimizer { learning_rate { cosine_decay_learning_rate {
    learning_rate_base: 0.002 total_epochs: 3 warmup_epochs: 0.5 warmup_learning_rate: 0.001 } } } }
  gradient_clipping_by_norm: 10 class_weight_power: 0.5
}
train_input_reader { repeat_factor_threshold: 0.9 }
"""


@dataclasses.dataclass
class Run:
    """A training in a separate folder."""

    root: Path
    examples: Path
    backbone: str = PLAIN
    config: TrainEvalPipelineConfig | None = None
    """Instead of the tiny one of that backbone."""
    killed_at: int = -1
    updates: list[ProgressUpdate] = dataclasses.field(default_factory=list)

    def __call__(self, name="a", warm_start="", code_version="", **overrides: Any) -> TrainReport:
        config = self.config or parse_pipeline_config(config_text(backbone=self.backbone))
        config = apply_overrides(config, overrides)
        config = check_pipeline_config(point_at_examples(config, str(self.examples), eval_split="train"))
        places = {"model_dir": f"{name}/model", "model_run_dir": f"{name}/run", "work_dir": "work"}
        given = {place: str(self.root / path) for place, path in places.items()}
        given |= {"warm_start_dir": warm_start, "resume": ResumeOptions(code_version=code_version)}
        return train(config, log_every=2, progress=self._progress, **given)

    def _progress(self, update: ProgressUpdate) -> None:
        self.updates.append(update)
        if update.done == self.killed_at:
            raise MemoryError

    def killed(self, name: str, at: int, **arguments: Any) -> None:
        self.killed_at = at
        refused(MemoryError, "", self, name, **arguments)
        self.killed_at = -1

    def weights(self, name: str) -> list[np.ndarray]:
        """Return those of the detector that was written."""
        return [v.numpy() for v in load_detector(str(self.root / name / "model")).model.network.variables]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("train")
    return Run(root, write_examples(root / "examples"))


@pytest.fixture(scope="module")
def report(run):
    return run()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", pytest.param("float16", marks=pytest.mark.zoo)])
def test_what_computed_in_fewer_bits_is_written_in_float32_after_a_kill_and_other_code(
    run, report, precision, caplog
):
    changes = {
        "train_config.precision": precision.upper(),
        "train_config.validation.every_steps": 2,
        "train_config.optimizer.use_moving_average": True,
        "eval_config.use_moving_averages": True,
    }
    run.killed(precision, 4, code_version="before", **changes)
    resumed = run(precision, code_version="after", **changes)
    assert "going on with a training that other code began (before, now after)" in caplog.text
    assert resumed.code_versions == ["before", "after"]
    assert (resumed.precision, report.precision) == (precision, "float32")
    assert resumed.start_step == 3 and np.isfinite(resumed.loss) and resumed.fingerprint != report.fingerprint
    network = load_detector(str(run.root / precision / "model")).model.networks["detector"]
    assert {layer.compute_dtype for layer in network.layers} == {"float32"}
    assert all(np.all(np.isfinite(variable)) for variable in network.variables)
    saved = tf.saved_model.load(str(run.root / precision / "model" / "Format-Serving"))
    graph = saved.signatures["serving_default"].graph.as_graph_def()
    kinds = {a.type for f in graph.library.function for n in f.node_def for a in n.attr.values()}
    assert tf.float32.as_datatype_enum in kinds
    assert not kinds & {tf.bfloat16.as_datatype_enum, tf.half.as_datatype_enum}


def test_the_record_and_the_detector_are_whole(run, report):
    folder = run.root / "a" / "run"
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line["step"] for line in history] == [2, 4]
    assert history[-1]["loss"] == report.loss == pytest.approx(sum(report.losses.values()) - report.loss)
    assert TRAIN_REPORT.read(str(folder)) == report
    assert json.loads((folder / "train_report.json").read_text()) == TRAIN_REPORT.encode(report)
    as_run = load_pipeline_config(str(folder / "pipeline.config"))
    assert as_run.train_input_reader.label_map_path == str(run.examples / "label_map.pbtxt")
    assert list((folder / "logs" / "train").glob("events.*"))
    assert (report.steps, report.start_step, report.weights) == (4, 0, "last")
    assert report.started_from == "random weights"
    assert report.peak_memory_bytes > 100_000_000  # TensorFlow alone takes more
    assert report.peak_device_memory_bytes == 0 or tf.config.list_physical_devices("GPU")
    assert [u.done for u in run.updates[:2]] == [2, 4]
    # The detector holds the weights of the last checkpoint.
    loaded = load_detector(str(run.root / "a" / "model"))
    checkpoint = tf.train.latest_checkpoint(str(folder / "checkpoint"))
    before = [v.numpy() for v in loaded.model.network.variables]
    tf.train.Checkpoint(model=loaded.model).restore(checkpoint).expect_partial()
    for variable, value in zip(loaded.model.network.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value, err_msg=variable.name)
    assert loaded.info.extra["trained_as"] == report.fingerprint
    for key in ("config_hash", "data_fingerprint"):
        assert len(loaded.info.extra[key]) == 16


def test_the_same_training_again_is_already_done_also_where_classes_are_left_to_the_label_map(run, report):
    again = run("b", **{"model.ssd.num_classes": "unset"})
    assert (again.start_step, again.fingerprint) == (4, report.fingerprint)
    for a, b in zip(run.weights("a"), run.weights("b"), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len((run.root / "b" / "run" / "history.jsonl").read_text().splitlines()) == 2
    # It says of the last update what the process said that did it.
    for name in ("loss", "losses", "learning_rate", "steps_per_second"):
        assert getattr(again, name) == getattr(report, name), name
    as_run = load_pipeline_config(str(run.root / "b" / "run" / "pipeline.config"))
    written = load_detector(str(run.root / "b" / "model")).config
    assert as_run.model.ssd.num_classes == written.model.ssd.num_classes == 2


@pytest.mark.slow
def test_a_warm_start_takes_the_weights_that_fit(run, report):
    schedule = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
    warm = run("c", str(run.root / "a" / "model"), **{f"{schedule}.learning_rate_base": 0.0})
    assert warm.started_from.startswith(f"{len(run.weights('a'))} weights of ")
    assert warm.fingerprint != report.fingerprint
    a, c = (load_detector(str(run.root / name / "model")).model.network for name in "ac")
    for first, second in zip(a.trainable_variables, c.trainable_variables, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-7, err_msg=first.name)


@pytest.mark.slow
def test_the_record_tells_what_a_checkpoint_gave_and_the_detector_holds_the_averages(run, tmp_path):
    # Weights of a TensorFlow 1 classifier, trained, with their moving average in the detector.
    network = load_detector(str(trained("ssd") / "model")).model.network
    variables = [v for v in scoped_variables(network, MOBILENET) if v.backbone]
    backbone = {v.name.removeprefix("FeatureExtractor/"): v.variable.numpy() for v in variables}
    prefix = tmp_path / "mobilenet_v2.ckpt"
    changes = {
        "train_config.fine_tune_checkpoint": write_named_checkpoint(backbone, prefix),
        "train_config.optimizer.use_moving_average": True,
        "train_config.optimizer.moving_average_decay": 0.9,
        "eval_config.use_moving_averages": True,
        "train_config.num_steps": 2,
    }
    averaged = dataclasses.replace(run, backbone=MOBILENET, updates=[])("d", **changes)
    assert averaged.started_from.endswith("mobilenet_v2.ckpt")
    count = averaged.restored["restored"]
    assert count > 200
    assert averaged.restored == {"restored": count, "skipped_shape": 0, "missing": 0, "unused": 0}
    table = (run.root / "d" / "run" / "fine_tune_checkpoint.txt").read_text()
    assert table.startswith(f"classification checkpoint {averaged.started_from}: {count} restored")
    assert not (run.root / "a" / "run" / "fine_tune_checkpoint.txt").exists()
    assert averaged.weights == "moving average"
    loaded = load_detector(str(run.root / "d" / "model")).model
    written = [v.numpy() for v in loaded.network.trainable_variables]
    checkpoint = tf.train.latest_checkpoint(str(run.root / "d" / "run" / "checkpoint"))
    tf.train.Checkpoint(model=loaded).restore(checkpoint).expect_partial()
    last = [v.numpy() for v in loaded.network.trainable_variables]
    assert any(not np.array_equal(a, b) for a, b in zip(written, last, strict=True))
    for number, average in enumerate(written[:3]):
        key = f"moving_average/averages/{number}/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_array_equal(tf.train.load_variable(checkpoint, key), average)


def test_what_cannot_be_trained_is_refused_and_leaves_no_output(run):
    absent = {"train_config.fine_tune_checkpoint": "absent"}
    for overrides, error, text in (
        ({"model.ssd.num_classes": 3}, ConfigError, "model.ssd.num_classes: .* 2 classes, found 3"),
        ({"train_config.num_steps": 0}, ConfigError, "train_config.num_steps"),
        ({"eval_config.use_moving_averages": True}, ConfigError, "Set both or neither"),
        ({"train_config.use_multiclass_scores": True}, ConfigError, "load_multiclass_scores: true"),
        ({"train_config.freeze_variables": ["nothing"]}, ConfigError, "matches none"),
        (absent | {"train_config.fine_tune_checkpoint_version": "V2"}, ModelError, "absent"),
    ):
        refused(error, text, run, "refused", **overrides)
    assert not (run.root / "refused").exists()


@pytest.mark.slow
def test_a_recipe_in_epochs_is_followed_and_gone_on_with_as_if_never_stopped(run, tmp_path):
    config = parse_pipeline_config(config_text(backbone=PLAIN))
    config.train_config.ClearField("num_steps")
    rate = config.train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate
    rate.ClearField("total_steps")
    rate.ClearField("warmup_steps")
    config.MergeFrom(parse_pipeline_config(RECIPE))
    killed = dataclasses.replace(run, root=tmp_path / "killed", config=config, updates=[])
    killed.killed("a", 6)
    whole = dataclasses.replace(run, root=tmp_path / "whole", config=config, updates=[])
    # Half of six images have each class: sqrt(0.9 / 0.5) times six are 8.05 images, nine in whole ones.
    resumed = killed()
    assert resumed.steps == whole().steps == 14  # three times nine, two an update
    assert resumed.class_weights == {"dark": 1.0, "bright": 1.0}  # three objects each, without repeats
    for expected, found in zip(whole.weights("a"), killed.weights("a"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    written = load_pipeline_config(str(tmp_path / "killed" / "a" / "run" / "pipeline.config"))
    rate = written.train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate
    assert (rate.total_steps, rate.warmup_steps) == (14, 2)
    assert written.train_config.close_mosaic_steps == 4 and not written.train_config.HasField("num_epochs")
