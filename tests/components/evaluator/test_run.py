import json
from pathlib import Path

import numpy as np
import pytest

from component_specs import EvaluatorJob
from components.evaluator.run import run
from detection_core.artifacts.evaluation import MAP, MAP_50
from detection_core.artifacts.pictures import list_pictures
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.optional.ensembles.ensemble_runner import write_ensemble
from tests.support import blobs
from tests.support.evaluated_images import make_truth


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("evaluator")
    blobs.write_examples(root / "examples", "test", blobs.scenes(8))
    return {
        "examples": str(root / "examples"),
        "good": blobs.save_folder(blobs.BlobDetector(), root / "good", config=blobs.PER_CATEGORY),
        "worse": blobs.save_folder(blobs.BlobDetector(shift=0.03), root / "worse"),
        "other": blobs.save_folder(blobs.BlobDetector(), root / "other", names=["cat", "dog"]),
    }


def job(folders, tmp_path, **changes):
    values = {"model": folders["good"], "examples": folders["examples"], "split": "test", "pictures": 0}
    values |= {"evaluation": str(tmp_path / "evaluation"), "blessing": str(tmp_path / "blessing")}
    return EvaluatorJob(**{**values, **changes})


def read(tmp_path, *parts):
    return json.loads(tmp_path.joinpath(*parts).read_text())


def test_tiles_find_small_objects_and_the_metrics_are_of_whole_images(folders, tmp_path):
    """A tile shows one square of a colour, but the image several, which the detector cannot tell apart."""
    corners = [(10, 10), (100, 10), (10, 100), (90, 90)]
    image = np.zeros((128, 128, 3), np.uint8)
    for top, left in corners:
        image[top : top + 8, left : left + 8, 0] = 255
    boxes = [[top / 128, left / 128, (top + 8) / 128, (left + 8) / 128] for top, left in corners]
    truth = make_truth(boxes, [0] * 4, height=128, width=128, source_id="a")
    blobs.write_examples(tmp_path / "examples", "test", [(image, truth)])
    found = {}
    for name, tiles in {"whole": {}, "tiles": {"size": 64, "overlap": 0.25}}.items():
        places = {part: str(tmp_path / name / part) for part in ("evaluation", "blessing")}
        fields = {"examples": str(tmp_path / "examples"), "tiles": tiles, **places}
        assert run(job(folders, tmp_path, **fields))["images"] == 1
        found[name] = read(tmp_path, name, "evaluation", "metrics.json")["metrics"]
    # The box around all squares, found in the whole image, comes first: precision is 4 of 5 at any recall.
    assert found["whole"][MAP] == 0.0
    assert found["tiles"][MAP] == pytest.approx(0.8)
    assert found["tiles"]["DetectionBoxes_Recall/AR@100"] == pytest.approx(1.0)
    results = tmp_path / "detections.json"
    results.write_text("[]")
    with pytest.raises(ConfigError, match="found detections"):
        run(job(folders, tmp_path, model=str(results), tiles={"size": 64}))


def test_a_good_detector_is_blessed_over_an_older_evaluation(folders, tmp_path):
    """Squares are found exactly, so a lossy or rescaled image would show in mAP."""
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "leftover").write_text("x")
    thresholds = {MAP_50: {"lower_bound": 0.9}, MAP: {"min_change": 0.0}}
    properties = run(job(folders, tmp_path, thresholds=thresholds, slices="image_size", pictures=3))
    assert properties == {"blessed": True, "images": 8, "split": "test"}
    assert (tmp_path / "blessing" / "BLESSED").read_bytes() == b""
    assert not (tmp_path / "blessing" / "NOT_BLESSED").exists()
    written = sorted(p.name for p in (tmp_path / "evaluation").iterdir())
    assert written == ["curves.json", "detection_statistics.json", "metrics.json", "pictures"]
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["metrics"][MAP] == pytest.approx(1.0)
    assert metrics["metrics"]["DetectionBoxes_PerformanceByCategory/mAP/green"] == pytest.approx(1.0)
    assert metrics["metrics"]["DetectionBoxes_Precision/mAP (large)"] == -1.0
    (small,) = metrics["slices"]
    assert (small["feature"], small["value"], small["images"]) == ("image_size", "small", 8)
    assert metrics["baseline"] is None and metrics["seconds_per_image"] > 0
    assert [v["passed"] for v in metrics["thresholds"]] == [True, True]
    assert metrics["peak_memory_bytes"] > 100_000_000  # TensorFlow alone takes more
    curves = read(tmp_path, "evaluation", "curves.json")
    assert [c["name"] for c in curves["classes"]] == ["red", "green"]
    index = list_pictures(str(tmp_path / "evaluation"))
    assert [e.kind for e in index] == ["side_by_side"] * 3
    assert all(Path(e.file).stat().st_size > 1000 for e in index)


def test_a_detector_behind_its_baseline_is_not_blessed(folders, tmp_path):
    thresholds = {MAP: {"min_change": 0.0}}
    changes = {"model": folders["worse"], "baseline": folders["good"], "thresholds": thresholds}
    run(job(folders, tmp_path, **changes, pictures=3))
    assert (tmp_path / "blessing" / "NOT_BLESSED").exists()
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["metrics"][MAP] < metrics["baseline"][MAP] == pytest.approx(1.0)
    assert "the baseline's 1.0000: a change of -" in read(tmp_path, "blessing", "reasons.json")["reasons"][0]
    kinds = [e.kind for e in list_pictures(str(tmp_path / "evaluation"))]
    assert kinds.count("side_by_side") == 3


def test_an_ensemble_is_measured_by_its_first_config_and_other_classes_are_no_baseline(folders, tmp_path):
    ensemble = str(tmp_path / "ensemble")
    write_ensemble(ensemble, [folders["good"], folders["worse"]])
    run(job(folders, tmp_path, model=ensemble, baseline=folders["good"]))
    metrics = read(tmp_path, "evaluation", "metrics.json")
    assert metrics["metrics"][MAP] < metrics["baseline"][MAP] == pytest.approx(1.0)
    assert "DetectionBoxes_PerformanceByCategory/mAP/green" in metrics["metrics"]
    report = run(job(folders, tmp_path, baseline=folders["other"], thresholds={MAP: {"min_change": 0.5}}))
    assert report["blessed"] and read(tmp_path, "evaluation", "metrics.json")["baseline"] is None
    reasons = read(tmp_path, "blessing", "reasons.json")["reasons"]
    assert reasons[0] == "not compared with the baseline, which knows other classes: cat, dog"


def test_what_cannot_be_judged_leaves_no_evaluation(folders, tmp_path):
    with pytest.raises(ConfigError, match="unknown metric 'mAP'; did you mean"):
        run(job(folders, tmp_path, thresholds={"mAP": {"lower_bound": 1}}))
    assert not (tmp_path / "evaluation").exists()
    examples = tmp_path / "examples"
    blobs.write_examples(examples, "test", blobs.scenes(2))
    split = examples / "Split-test"
    (split / "examples-00000-of-00001.tfrecord").rename(split / "examples-00000-of-00002.tfrecord")
    with pytest.raises(DataError, match="expected 2 shards, as their names say, found 1"):
        run(job(folders, tmp_path, examples=str(examples)))
    assert not (tmp_path / "evaluation").exists() or not list((tmp_path / "evaluation").iterdir())


def test_a_baseline_that_does_more_than_compute_is_not_run_unless_it_is_trusted(folders, tmp_path):
    mark = tmp_path / "pwned"
    baseline = blobs.save_folder(blobs.writing_detector(mark), tmp_path / "baseline")
    with pytest.raises(ModelError, match="found WriteFile"):
        run(job(folders, tmp_path, baseline=baseline))
    assert not mark.exists()
    run(job(folders, tmp_path, baseline=baseline, trust=True))
    assert mark.exists()
