"""Validation of a real detector in training: as `evaluate` measures it, and what is written then."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import TRAIN_REPORT, VALIDATIONS
from detection_core.artifacts.pictures import list_pictures
from detection_core.builders.detector import configured_model
from detection_core.builders.train_plan import build_train_plan
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.evaluate import plan_evaluation
from detection_core.tasks.fitting import detector_measure
from detection_core.tasks.fitting.detector_measure import DetectorMeasure
from detection_core.training.distribution import Worker
from tests.support.blobs import BlobDetector
from tests.support.detectors import train_below
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text, write_examples

pytestmark = pytest.mark.slow

BLOCK = "train_config.validation"
MAP = "DetectionBoxes_Precision/mAP"


def run(root, examples, **overrides):
    """Return a validated training with the detector that it wrote."""
    config = apply_overrides(parse_pipeline_config(config_text(6, PLAIN)), overrides)
    config = point_at_examples(config, str(examples), eval_split="train")
    report = train_below(root, config, log_every=2, progress=lambda update: None)
    return SimpleNamespace(root=root, report=report, config=config)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return write_examples(tmp_path_factory.mktemp("validated") / "examples")


@pytest.fixture(scope="module")
def trained(examples):
    # Ever fewer boxes are found with a rate this high, so that the best weights are not the last.
    rate = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
    changes = {
        f"{BLOCK}.every_steps": 2,
        f"{BLOCK}.metric": [{"name": "DetectionBoxes_Recall/AR@100"}, {"name": MAP, "weight": 0.5}],
        f"{rate}.learning_rate_base": 2.0,
    }
    return run(examples.parent / "best", examples, **changes)


def test_the_record_has_every_validation_and_what_is_written_measures_as_the_best_did(trained):
    lines = VALIDATIONS.read(str(trained.root / "run"))
    assert [line.step for line in lines] == [2, 4, 6]
    best = max(lines, key=lambda line: (line.score, -line.step))
    report = TRAIN_REPORT.read(str(trained.root / "run"))
    assert report == trained.report
    assert (report.best_step, report.best_score, report.weights) == (best.step, best.score, "best")
    for line in lines:
        expected = line.metrics["DetectionBoxes_Recall/AR@100"] + 0.5 * line.metrics[MAP]
        assert line.score == pytest.approx(expected)
    history = (trained.root / "run" / "history.jsonl").read_text().splitlines()
    assert json.loads(history[-1])["step"] == report.steps == 6 and not report.stopped_early
    assert list((trained.root / "run" / "logs" / "eval").iterdir())
    places = {"model_path": str(trained.root / "model"), "evaluation_dir": str(trained.root / "evaluation")}
    found = plan_evaluation(config=trained.config, **places).run()
    assert found.metrics == pytest.approx({name: best.metrics[name] for name in found.metrics}, abs=1e-5)


def test_the_last_weights_are_written_where_the_config_says_so(trained, examples):
    changes = {f"{BLOCK}.every_steps": 3, f"{BLOCK}.weights": "LAST", f"{BLOCK}.max_images": 2}
    last = run(examples.parent / "last", examples, **changes)
    assert last.report.weights == "last" and last.report.best_step in (3, 6)
    plain = run(examples.parent / "plain", examples)
    assert (plain.report.best_step, plain.report.weights) == (0, "last")
    pairs = (load_detector(str(each.root / "model")).model.variables for each in (last, plain))
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def measure_of(config, model=None, plain_model=None, **block):
    config = apply_overrides(config, {BLOCK: block} if block else {})
    plan = build_train_plan(config)
    labels = load_label_map(plan.label_map_path)
    model = model or configured_model(config).build()
    return DetectorMeasure(model, config, labels, plan.validation, plain_model=plain_model)


def test_a_sample_is_the_same_images_each_time_whichever_copy_of_the_model_is_measured(trained):
    measure = measure_of(trained.config, max_images=3)
    assert measure.images == 3 and measure() == measure()
    detector = load_detector(str(trained.root / "model")).model
    plain = configured_model(trained.config).build(seed=7)
    directly = measure_of(trained.config, detector)()
    assert measure_of(trained.config, detector, plain)() == directly
    with pytest.raises(ConfigError, match=r"validation.metric\[0\].name.*did you mean Detection"):
        measure_of(trained.config, metric=[{"name": "DetectionBoxes_Precision/mAPP"}])


def test_workers_that_share_the_images_measure_what_one_does(trained, monkeypatch):
    alone, count, sent = measure_of(trained.config, max_images=3), 4, []
    expected = alone()
    monkeypatch.setattr(
        detector_measure, "gather_from_workers", lambda data: sent.insert(0, data) or list(sent)
    )
    for index in reversed(range(count)):  # the chief is last, and gets what the others sent
        worker = Worker(index=index, count=count)
        monkeypatch.setattr(detector_measure, "current_worker", lambda worker=worker: worker)
        shared = measure_of(trained.config, max_images=3)
        found = shared()
        assert worker.is_chief or found == {}
    assert len(sent) == count and found == expected
    for one, other in zip(shared.pictures, alone.pictures, strict=True):
        assert (one.number, one.source_id) == (other.number, other.source_id)
        np.testing.assert_array_equal(one.image, other.image)


def test_validation_detects_in_tiles_where_the_config_says_so(trained, monkeypatch):
    detector, seen = BlobDetector(), []

    def serving(model, resizer):
        return lambda image: seen.append(tuple(image.shape[1:3])) or detector.serve(image)

    monkeypatch.setattr(detector_measure, "serving_function", serving)
    whole = measure_of(trained.config, max_images=2)()
    assert seen == [(64, 64)] * 2
    seen.clear()
    in_tiles = measure_of(trained.config, max_images=2, tile_size=40, tile_overlap=0.25)()
    assert seen == [(64, 64), *[(40, 40)] * 4] * 2
    assert in_tiles.keys() == whole.keys()


def test_the_same_images_are_drawn_at_each_validation(trained):
    drawn = {}
    for picture in list_pictures(str(trained.root / "run")):
        drawn.setdefault(picture.source_id, []).append(picture.caption)
        assert picture.read()
    assert drawn and set(map(tuple, drawn.values())) == {("step 2", "step 4", "step 6")}
    (path,) = (trained.root / "run" / "logs" / "eval").glob("events.*")
    tags = [
        (event.step, value.tag)
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == "images"
    ]
    assert sorted(tags) == [(step, f"validation/{i}") for step in (2, 4, 6) for i in range(len(drawn))]
