import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from component_specs import EvaluatorJob
from components.evaluator.run import run
from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.ensemble_runner import write_ensemble
from tests.support.blobs import BlobDetector, save, scenes, writing_detector

PER_CATEGORY = "eval_config { include_metrics_per_category: true }"
LABELS = label_map_from_names(["red", "green"])


def write_examples(folder, split, images):
    """Records as ExampleGen writes them, PNG so that pixels stay as they are."""

    def feature(values):
        if values and isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if values and isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    (folder / f"Split-{split}").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / f"Split-{split}" / "examples-00000-of-00001.tfrecord")) as writer:
        for image, truth in images:
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, "PNG")
            fields = {
                "image/encoded": [stream.getvalue()],
                "image/format": [b"png"],
                "image/height": [image.shape[0]],
                "image/width": [image.shape[1]],
                "image/source_id": [truth.source_id.encode()],
                "image/filename": [truth.source_id.encode()],
            }
            for i, name in enumerate(("ymin", "xmin", "ymax", "xmax")):
                fields[f"image/object/bbox/{name}"] = truth.boxes[:, i].tolist()
            fields["image/object/class/label"] = [int(c) + 1 for c in truth.classes]
            fields["image/object/class/text"] = [LABELS.names[c].encode() for c in truth.classes]
            example = tf.train.Example(
                features=tf.train.Features(feature={k: feature(v) for k, v in fields.items() if v})
            )
            writer.write(example.SerializeToString())
    (folder / "label_map.pbtxt").write_text(format_label_map(LABELS))
    (folder / "dataset_card.json").write_text(json.dumps({"splits": {split: {"images": len(images)}}}))


def save_model(detector, folder, names=LABELS.names, config="") -> str:
    save(detector, folder / "Format-Serving")
    extra = folder / "Format-Serving" / "assets.extra" / "detflow"
    extra.mkdir(parents=True)
    (extra / "label_map.pbtxt").write_text(format_label_map(label_map_from_names(list(names))))
    (extra / "pipeline.config").write_text(config)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("evaluator")
    write_examples(root / "examples", "test", scenes(8))
    return {
        "root": root,
        "examples": str(root / "examples"),
        "good": save_model(
            BlobDetector(), root / "good", config="eval_config { include_metrics_per_category: true }"
        ),
        "worse": save_model(BlobDetector(shift=0.03), root / "worse"),
        "other": save_model(BlobDetector(), root / "other", names=["cat", "dog"]),
    }


def job(folders, tmp_path, **changes):
    values = {"model": folders["good"], "examples": folders["examples"], "split": "test", "pictures": 3}
    values |= {"evaluation": str(tmp_path / "evaluation"), "blessing": str(tmp_path / "blessing")}
    return EvaluatorJob(**{**values, **changes})


def read(tmp_path, *parts):
    return json.loads(tmp_path.joinpath(*parts).read_text())


def test_a_good_detector_is_blessed(folders, tmp_path):
    thresholds = {MAP_50: {"lower_bound": 0.9}, MAP: {"min_change": 0.0}}
    properties = run(job(folders, tmp_path, thresholds=thresholds))
    assert properties == {"blessed": True, "images": 8, "split": "test"}
    assert (tmp_path / "blessing" / "BLESSED").read_bytes() == b""
    assert not (tmp_path / "blessing" / "NOT_BLESSED").exists()
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["metrics"][MAP] == pytest.approx(1.0)
    assert metrics["metrics"]["DetectionBoxes_PerformanceByCategory/mAP/green"] == pytest.approx(1.0)
    assert metrics["metrics"]["DetectionBoxes_Precision/mAP (large)"] == -1.0
    assert metrics["baseline"] is None
    assert [v["passed"] for v in metrics["thresholds"]] == [True, True]
    assert metrics["seconds_per_image"] > 0
    assert metrics["peak_memory_bytes"] > 100_000_000  # TensorFlow alone takes more
    curves = read(tmp_path, "evaluation", "curves.json")
    assert [c["name"] for c in curves["classes"]] == ["red", "green"]
    index = read(tmp_path, "evaluation", "pictures", "index.json")
    assert [e["kind"] for e in index] == ["side_by_side"] * 3
    assert all((tmp_path / "evaluation" / "pictures" / e["file"]).stat().st_size > 1000 for e in index)


def test_a_detector_behind_its_baseline_is_not_blessed(folders, tmp_path):
    thresholds = {MAP: {"min_change": 0.0}}
    run(job(folders, tmp_path, model=folders["worse"], baseline=folders["good"], thresholds=thresholds))
    assert (tmp_path / "blessing" / "NOT_BLESSED").exists()
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["baseline"][MAP] == pytest.approx(1.0)
    assert metrics["metrics"][MAP] < 1.0
    assert "the baseline's 1.0000: a change of -" in read(tmp_path, "blessing", "reasons.json")["reasons"][0]
    kinds = {e["kind"] for e in read(tmp_path, "evaluation", "pictures", "index.json")}
    assert "side_by_side" in kinds


def test_an_ensemble_is_measured_as_its_first_detector_says(folders, tmp_path):
    write_ensemble(str(tmp_path / "ensemble"), [folders["good"], folders["worse"]])
    run(job(folders, tmp_path, model=str(tmp_path / "ensemble"), baseline=folders["good"]))
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["metrics"][MAP] < metrics["baseline"][MAP] == pytest.approx(1.0)
    # By the config of the first detector, which asks for it.
    assert "DetectionBoxes_PerformanceByCategory/mAP/green" in metrics["metrics"]


def test_a_baseline_of_other_classes_is_no_measure(folders, tmp_path):
    thresholds = {MAP: {"min_change": 0.5}}
    report = run(job(folders, tmp_path, baseline=folders["other"], thresholds=thresholds))
    assert report["blessed"]
    assert read(tmp_path, "evaluation", "metrics.json")["baseline"] is None
    reasons = read(tmp_path, "blessing", "reasons.json")["reasons"]
    assert reasons[0] == "not compared with the baseline, which knows other classes: cat, dog"


def test_again_over_an_older_evaluation(folders, tmp_path):
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "leftover").write_text("x")
    run(job(folders, tmp_path))
    assert sorted(p.name for p in (tmp_path / "evaluation").iterdir()) == [
        "curves.json",
        "metrics.json",
        "pictures",
    ]


def test_an_unknown_metric_stops_the_step_before_anything_runs(folders, tmp_path):
    with pytest.raises(ConfigError, match="unknown metric 'mAP'; did you mean"):
        run(job(folders, tmp_path, thresholds={"mAP": {"lower_bound": 1}}))
    assert not (tmp_path / "evaluation").exists()


def test_pixels_reach_the_detector_as_recorded(folders):
    """The fixture's squares are found exactly, so a lossy or rescaled image would show."""
    from detection_core.evaluation.runner import load_runner

    runner = load_runner(folders["good"])
    for image, truth in scenes(3):
        np.testing.assert_allclose(runner(image).boxes, truth.boxes, atol=1e-6)


def test_fewer_data_than_written_are_not_judged(folders, tmp_path):
    model, examples = folders["good"], tmp_path / "examples"
    write_examples(examples, "test", scenes(2))
    split = examples / "Split-test"
    (split / "examples-00000-of-00001.tfrecord").rename(split / "examples-00000-of-00002.tfrecord")
    with pytest.raises(DataError, match="expected 2 shards, as their names say, found 1"):
        run(job(folders, tmp_path, examples=str(examples), split="test", model=model))
    assert not (tmp_path / "evaluation").exists() or not list((tmp_path / "evaluation").iterdir())


def test_a_baseline_that_does_more_than_compute_is_not_run_unless_it_is_trusted(folders, tmp_path):
    mark = tmp_path / "pwned"
    baseline = save_model(writing_detector(mark), tmp_path / "baseline")
    with pytest.raises(ModelError, match="found WriteFile"):
        run(job(folders, tmp_path, baseline=baseline))
    assert not mark.exists()
    run(job(folders, tmp_path, baseline=baseline, trust=True))
    assert mark.exists()
