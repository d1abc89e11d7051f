"""Evaluations, model cards and pages of data: what is measured, and what is said of it."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from detection_core.artifacts.evaluation import MAP, METRICS, EvalReport, slice_metric
from detection_core.artifacts.model_run import TRAIN_REPORT
from detection_core.artifacts.published import VERSION, PublishedVersion, version_file
from detection_core.artifacts.shard_manifest import MANIFEST, write_manifest
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.builders.datasets import build_eval_dataset
from detection_core.builders.evaluation_settings import AS_CONFIGURED, EvaluateOptions, with_eval_config
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError, ContractError, DataError, ModelError
from detection_core.evaluation.coco_results import write_coco_results
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import load_detector
from detection_core.exporters.tflite_description import add_description
from detection_core.storage import files
from detection_core.storage.shard_cache import Shard
from detection_core.tasks.evaluate import measure_losses
from detection_core.tasks.examples import check_split
from detection_core.tasks.inspection import inspect
from detection_core.tasks.model_card import model_card
from tests.support.bare_tflite import DECODING, DESCRIPTION, bare_file, heads
from tests.support.blobs import BlobDetector, save, scenes
from tests.support.cases import refused
from tests.support.detectors import pointed, trained
from tests.support.evaluations import evaluate
from tests.support.record_files import write_records

PARTS = ["Loss/classification_loss", "Loss/localization_loss", "Loss/regularization_loss"]
LABELS = label_map_from_names(["red", "green"])
_EXTRA = {"started_from": "random weights", "steps": 60, "config_hash": "cc", "data_fingerprint": "dd"}
INFO = {"kind": "float", "name": "ssd_tiny", "parameters": 1234, "num_classes": 2, "input_size": [32, 48]}
INFO |= {"extra": _EXTRA}
MEASURED = EvalReport(metrics={"mAP": 0.51234, "mAP (large)": -1.0}, score_threshold=0.321)
ORIGIN = Provenance(model="tiny", format="int8", config_hash="abc", metrics={"mAP": 0.5})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(BlobDetector(), tmp_path_factory.mktemp("model") / "good")


def run(model, folder, truth=None, **options):
    given = {"model_path": model, "label_map": LABELS, "evaluation_dir": str(folder / "evaluation")}
    return evaluate(truth=truth or (lambda: iter(scenes(8))), options=EvaluateOptions(**options), **given)


def test_images_are_read_once_to_measure_and_once_to_draw(model, tmp_path):
    reads = []

    def truth():
        reads.append(0)
        for item in scenes(8):
            reads[-1] += 1
            yield item

    report = run(model, tmp_path, truth, pictures=2)
    assert (reads, report.images) == ([8, 8], 8)
    assert report.blessed and report.reasons == ("no thresholds are set",)
    assert len((tmp_path / "evaluation/pictures/index.jsonl").read_text().splitlines()) == 2
    reads.clear()
    run(model, tmp_path, truth, pictures=0)
    assert reads == [8]


def test_a_coco_results_file_is_measured_as_the_detector_that_it_came_from(model, tmp_path):
    runner, path = load_runner(model), tmp_path / "results.json"
    found = [(truth.source_id, runner(image, truth.source_id)) for image, truth in scenes(8)]
    write_coco_results(str(path), found)
    expected, report = (run(name, tmp_path, pictures=0) for name in (model, str(path)))
    assert report.metrics == pytest.approx(expected.metrics, abs=1e-6) and report.metrics[MAP] > 0.9
    run(model, tmp_path, pictures=0, write_detections=True)
    copied = (tmp_path / "evaluation" / "coco_results.json").rename(tmp_path / "copied.json")
    assert run(str(copied), tmp_path, pictures=0).metrics == pytest.approx(report.metrics, abs=1e-6)
    message = "expected the id of an evaluated image as image_id"
    refused(DataError, message, run, str(path), tmp_path, lambda: iter(scenes(1)))


def test_pascal_s_metrics_can_carry_a_threshold(model, tmp_path):
    name = "PascalBoxes_Precision/mAP@0.5IOU"
    sets = MetricOptions(sets=("pascal_voc_detection_metrics",))
    report = run(model, tmp_path, metrics=sets, thresholds={name: {"lower_bound": 0.9}})
    assert report.metrics[name] == pytest.approx(1.0) and report.blessed
    with pytest.raises(ConfigError, match="unknown metric 'PascalBoxes"):
        run(model, tmp_path, thresholds={name: {"lower_bound": 0.9}})


def test_slices_have_intervals_can_carry_thresholds_and_are_compared_with_the_baseline(model, tmp_path):
    path, name = tmp_path / "time.csv", slice_metric("time", "day")
    rows = [f"{truth.source_id},{('day', 'night')[i % 2]}" for i, (_, truth) in enumerate(scenes(8))]
    path.write_text("\n".join(["source_id,time", *rows]))
    bounds = {name: {"lower_bound": 0.9, "min_change": -0.01, "confidence": 0.95}}
    given = {"model_path": model, "label_map": LABELS, "evaluation_dir": str(tmp_path / "evaluation")}
    options = EvaluateOptions(slices=str(path), thresholds=bounds, pictures=0)
    report = evaluate(truth=lambda: iter(scenes(8)), baseline_path=model, options=options, **given)
    assert report.blessed and report.baseline[name] == report.metrics[name] > 0.9
    assert report.intervals[name].change == (0.0, 0.0)
    slices = {(one.feature, one.value): one for one in report.slices}
    assert slices["time", "day"].images == slices["time", "night"].images == 4
    assert slices["image_size", "small"].images == 8
    assert report.metrics[slice_metric("image_size", "small")] == report.metrics[MAP]
    assert METRICS.read(str(tmp_path / "evaluation")).slices == report.slices
    misspelt = {slice_metric("time", "dya"): {"lower_bound": 0.9}}
    given = {"slices": str(path), "thresholds": misspelt}
    refused(ConfigError, "did you mean '.*time=day'", run, model, tmp_path, **given)


def test_detections_of_classes_that_nobody_looked_for_are_left_out_where_asked(model, tmp_path):
    """The detector finds red and green squares; the images' labels say that only red ones were looked for."""
    images = [(image, truth) for image, truth in scenes(8) if len(truth.classes)]

    def only_red():
        for image, truth in images:
            red = truth.classes == 0
            fields = {name: getattr(truth, name)[red] for name in ("boxes", "classes", "is_crowd", "area")}
            flags = {name: getattr(truth, name)[red] for name in ("difficult", "group_of")}
            yield image, dataclasses.replace(truth, **fields, **flags, labelled=np.array([0], np.int32))

    curves = {}
    for only_labelled in (False, True):
        run(model, tmp_path, only_red, pictures=0, metrics=MetricOptions(only_labelled=only_labelled))
        curves[only_labelled] = json.loads((tmp_path / "evaluation/curves.json").read_text())["classes"]
    red, green = 0, 1
    assert curves[False][green]["false_positives"] > 0 and curves[True][green]["false_positives"] == 0
    assert curves[True][red]["found"] == curves[False][red]["found"] > 0


def test_no_images_or_a_broken_detector_leave_nothing_behind_and_no_objects_no_blessing(model, tmp_path):
    refused(DataError, "found none", run, model, tmp_path, lambda: iter(()))
    broken = save(BlobDetector(score=math.nan), tmp_path / "broken")
    refused(ModelError, "expected finite scores", run, broken, tmp_path)
    assert not (tmp_path / "evaluation").exists()
    empty = [s for s in scenes(12) if not len(s[1].classes)]
    report = run(model, tmp_path, lambda: iter(empty), thresholds={MAP: {"upper_bound": 1.0}})
    assert report.metrics[MAP] == -1.0 and not report.blessed


def _read(text, **options):
    config = parse_pipeline_config(f"eval_config {{ {text} }}")
    return with_eval_config(EvaluateOptions(**options), config)


def test_every_setting_reaches_the_evaluation_else_the_schema_s_default_or_what_was_asked_for():
    found = _read(
        """
        num_visualizations: 3 min_score_threshold: 0.25 max_num_boxes_to_visualize: 7
        skip_scores: true skip_labels: true
        visualize_groundtruth_boxes: true groundtruth_box_visualization_color: "#ff8000"
        metrics_set: "coco_detection_metrics" metrics_set: "precision_at_recall_detection_metrics"
        include_metrics_per_category: true all_metrics_per_category: true
        super_categories { key: "pets" value: "cat, dog" }
        skip_predictions_for_unlabeled_class: true recall_lower_bound: 0.25 recall_upper_bound: 0.75
        """,
        split="test",
        pictures=AS_CONFIGURED,
    )
    drawing = PictureOptions(most_boxes=7, names=False, scores=False, truth_colour=(255, 128, 0))
    sets = ("coco_detection_metrics", "precision_at_recall_detection_metrics")
    given = {"sets": sets, "groups": {"pets": ("cat", "dog")}, "recall_bounds": (0.25, 0.75)}
    metrics = MetricOptions(per_category=True, all_per_category=True, only_labelled=True, **given)
    shown = {"pictures": 3, "min_score": 0.25, "drawing": drawing}
    assert found == EvaluateOptions(split="test", metrics=metrics, **shown)
    found = _read("", pictures=AS_CONFIGURED)
    assert (found.pictures, found.min_score) == (10, None)
    assert (found.drawing, found.metrics) == (PictureOptions(), MetricOptions())
    assert _read("num_visualizations: 3", pictures=0).pictures == 0
    assert _read("num_visualizations: 3", pictures=5).pictures == 5


@pytest.fixture
def detector(tmp_path):
    extra = tmp_path / "model" / "assets.extra" / "detflow"
    extra.mkdir(parents=True)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    (extra / "model.json").write_text(json.dumps(INFO))
    (extra / "label_map.pbtxt").write_text("item { id: 1 name: 'a|b' }\nitem { id: 2 name: '<script>' }\n")
    return tmp_path / "model"


def test_the_card_tells_network_training_classes_and_metrics(detector, tmp_path):
    card = model_card(str(detector), MEASURED)
    for line in (
        "# ssd\\_tiny",
        "| input | 32 x 48 pixels, RGB |",
        "| started from | random weights |",
        "| config hash | cc |",
        "| data fingerprint | dd |",
        "| training | not recorded |",
        "| classes | 2: a\\|b, \\<script\\> |",
        "| mAP | 0.5123 |",
        "Best score threshold (highest F1): 0.3210.",
        "| mAP (large) | \N{EN DASH} |",
    ):
        assert line in card.splitlines()
    assert "TensorFlow Lite" not in card and card == model_card(str(detector), MEASURED)
    # Of a model that says nothing of itself.
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    card = model_card(str(tmp_path), EvalReport(metrics={}))
    assert "| classes | not recorded |" in card and card.startswith("# Detector")


def test_files_stand_side_by_side_with_their_own_metrics(detector, tmp_path):
    folder = tmp_path / "tflite"
    folder.mkdir()
    origin = Provenance(written_by="detflow 1", quantization="aware", metrics={"mAP": 0.4})
    (folder / "a.tflite").write_bytes(with_provenance(bare_file(), origin))
    (folder / "b.tflite").write_bytes(b"of another program")
    (folder / "c.tflite").write_bytes(add_description(heads(), DESCRIPTION, DECODING))
    lines = model_card(str(detector), MEASURED, tflite_dir=str(folder)).splitlines()
    assert any(line.startswith("| a.tflite |") and line.endswith("| aware | detflow 1 |") for line in lines)
    assert any(line.startswith("| c.tflite |") and " | 0.2500 | " in line for line in lines)
    assert "| metric | a.tflite | b.tflite | c.tflite |" in lines
    assert "| mAP | 0.4000 | \N{EN DASH} | \N{EN DASH} |" in lines


def _file(path):
    description = TFLiteDescription(name="m", mean=(1.0,), std=(2.0,), labels=("a", "b"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_provenance(add_description(bare_file(), description), ORIGIN))
    return path


def test_a_file_says_what_it_is_and_a_published_one_brings_the_record_of_its_version(tmp_path):
    path = _file(tmp_path / "m.tflite")
    found = inspect(str(path))
    assert (found.kind, found.size_bytes) == ("tflite", path.stat().st_size)
    assert [(t.dtype, t.shape, t.described_as) for t in found.inputs] == [("float32", (1,), "image")]
    assert found.operators == {"ADD": 1}
    assert found.description.labels == ("a", "b") and found.description.mean == (1.0,)
    assert found.provenance == ORIGIN and found.published is None
    assert json.loads(json.dumps(found.data()))["provenance"]["config_hash"] == "abc"
    # One of another program is shown as far as it goes.
    (tmp_path / "m.tflite").write_bytes(bare_file())
    found = inspect(str(tmp_path / "m.tflite"))
    assert found.description is None and found.provenance is None and found.operators == {"ADD": 1}
    path = _file(tmp_path / "tflite" / "17" / "m.tflite")
    version = PublishedVersion(number=17, run_key="key", metrics={"mAP": 0.7})
    (tmp_path / "versions").mkdir()
    files.write_text(str(tmp_path / "versions" / version_file(17)), VERSION.format(version))
    published = inspect(str(path)).published
    assert (published["number"], published["metrics"]) == (17, {"mAP": 0.7})
    assert inspect(str(_file(tmp_path / "elsewhere" / "17" / "m.tflite"))).published is None


def test_a_detector_folder_says_what_it_was_trained_with_and_what_is_no_model_is_refused(tmp_path):
    found = inspect(str(trained("ssd") / "model"))
    assert found.kind == "saved_model" and found.detector.num_classes == 2
    report = TRAIN_REPORT.read(str(trained("ssd") / "run"))
    origin, extra = found.provenance, found.detector.extra
    assert (origin.trained_as, origin.config_hash) == (report.fingerprint, extra["config_hash"])
    assert origin.data_fingerprint == extra["data_fingerprint"] and len(origin.data_fingerprint) == 16
    assert [(t.signature, t.dtype) for t in found.inputs] == [("input_tensor", "uint8")]
    outputs = [t.signature for t in found.outputs]
    assert outputs == sorted(outputs) and "detection_boxes" in outputs and found.operators["Conv2D"] > 40
    refused(ContractError, "found nothing", inspect, str(tmp_path / "gone.tflite"))
    refused(ContractError, "detector folder", inspect, str(tmp_path))
    (tmp_path / "x.tflite").write_bytes(b"no model at all")
    refused(ModelError, r"x\.tflite: expected a TensorFlow Lite file", inspect, str(tmp_path / "x.tflite"))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    refused(ModelError, "expected a SavedModel", inspect, str(tmp_path))


def write_split(folder: Path, shards: int = 3, card: object = None) -> Path:
    """Write a split of two records a shard, with a card where one is given."""
    split = folder / "Split-test"
    split.mkdir(parents=True)
    for number in range(shards):
        write_records(split / f"examples-{number:05d}-of-{shards:05d}.tfrecord", [b"a", b"b"])
    if card is not None:
        (folder / "dataset_card.json").write_text(card if isinstance(card, str) else json.dumps(card))
    return split


def test_a_whole_split_tells_its_records_with_a_card_or_without(tmp_path):
    write_split(tmp_path / "plain")
    assert check_split(str(tmp_path / "plain"), "test") == 6
    for number, card in enumerate(({"splits": {"test": {"images": 6, "shards": 3}}}, {"splits": {}}, {})):
        write_split(tmp_path / str(number), card=card)
        assert check_split(str(tmp_path / str(number)), "test") == 6
    (write_split(tmp_path / "empty", shards=1) / "examples-00000-of-00001.tfrecord").write_bytes(b"")
    for name in ("test", "none", "../../etc"):
        refused(DataError, r"found (none|the splits test alone)", check_split, str(tmp_path / "empty"), name)


def test_a_split_that_is_not_as_its_names_and_the_card_say_is_refused(tmp_path):
    split = write_split(tmp_path, card={"splits": {"test": {"images": 6, "shards": 3}}})
    write_records(split / "examples-00000-of-00001.tfrecord", [b"old"])
    message = r"expected 3 shards .*dataset_card\.json says, found 4"
    refused(DataError, message, check_split, str(tmp_path), "test")
    (split / "examples-00000-of-00001.tfrecord").unlink()
    for records, found in (([b"a"], 5), ([], 4)):
        write_records(split / "examples-00002-of-00003.tfrecord", records)
        refused(DataError, rf"expected 6 images .*found {found}", check_split, str(tmp_path), "test")
    for card in ("{", "[]", *(f'{{"splits": {{"test": {{"images": {n}}}}}}}' for n in ('"many"', "1e300"))):
        (tmp_path / "dataset_card.json").write_text(card)
        expected = r"dataset_card\.json: expected the JSON that ExampleGen writes"
        refused(ContractError, expected, check_split, str(tmp_path), "test")
    (tmp_path / "dataset_card.json").unlink()
    (split / "examples-00001-of-00003.tfrecord").unlink()
    message = "expected 3 shards, as their names say, found 2, without examples-00001-of-00003.tfrecord"
    refused(DataError, message, check_split, str(tmp_path), "test")


def test_what_a_manifest_lists_has_to_be_there_as_it_says(tmp_path):
    split = write_split(tmp_path / "examples", shards=1)
    path = (split / "examples-00000-of-00001.tfrecord").rename(tmp_path / "far-00000-of-00001.tfrecord")

    def listed(uri: str, size: int) -> None:
        write_manifest(str(split), [Shard(uri=uri, size=size, crc32c="00000000", examples=2)])

    listed(str(path), path.stat().st_size)
    assert check_split(str(tmp_path / "examples"), "test") == 2
    for uri, size in ((str(path), 7), ("/etc/passwd", 1), ("/dev/zero", 1), ("/nope", 1)):
        listed(uri, size)
        with pytest.raises(DataError, match=f"{uri}: expected {size} bytes, as .*{MANIFEST.name} says"):
            check_split(str(tmp_path / "examples"), "test")
    listed(str(path), 1)
    for changed in ((split / MANIFEST.name).read_text().replace('"examples": 2', '"examples": 1'), "{}", "["):
        (split / MANIFEST.name).write_text(changed)
        with pytest.raises(ContractError, match=f"{MANIFEST.name}: expected .*make the examples again"):
            check_split(str(tmp_path / "examples"), "test")


def test_what_lies_in_the_place_of_a_split_is_said(tmp_path):
    def found(folder: Path) -> str:
        expected = "expected a folder Split-train of TFRecord files, found "
        error = refused(DataError, expected, check_split, str(folder), "train")
        return error.message.partition("found ")[2]

    assert found(tmp_path / "none") == "no folder; correct the path"
    (tmp_path / "images").mkdir()
    assert found(tmp_path / "images").startswith("nothing; ")
    for name in ("a.jpg", "b.PNG"):
        (tmp_path / "images" / name).touch()
    assert found(tmp_path).startswith("2 images; `detflow init FOLDER`")
    write_split(tmp_path / "whole")
    assert found(tmp_path / "whole").startswith("the splits test alone; ")
    for name in ("label_map.pbtxt", "train.record-00000-of-00002", "train.record-00001-of-00002"):
        (tmp_path / "images" / name).touch()
    message = found(tmp_path / "images")
    assert message.startswith("2 TFRecord files without it, such as train.record-00000-of-00002; ")
    assert "--set train_input_path=FILE" in message
    # The newest examples of a workspace are named.
    artifacts = tmp_path / "workspace" / "artifacts"
    examples = artifacts / "example_gen" / "examples"
    for number in ("9", "10"):
        write_split(examples / number)
    statistics = artifacts / "data_validator" / "statistics" / "100" / "Split-test"
    statistics.mkdir(parents=True)
    (statistics / "FeatureStats.pb").touch()
    message, workspace = f"found it in {examples}/10; pass that folder", str(tmp_path / "workspace")
    refused(DataError, message, check_split, workspace, "test")


@pytest.mark.slow
def test_losses_count_each_image_once_and_a_last_batch_of_fewer_less():
    config, path = pointed("plain"), str(trained("plain") / "model")
    label_map = load_label_map(config.train_input_reader.label_map_path)
    model = load_detector(path).model
    images = list(build_eval_dataset(config, label_map=label_map))
    assert len(images) == 6
    expected = [model.losses(batch, training=False) for batch in images]
    found = measure_losses(path, config)
    assert sorted(found) == [*PARTS, "Loss/total_loss"]
    for name, value in found.items():
        np.testing.assert_allclose(value, np.mean([losses[name] for losses in expected]), rtol=1e-4)
    np.testing.assert_allclose(found["Loss/total_loss"], sum(found[name] for name in PARTS), rtol=1e-5)
    batches = list(build_eval_dataset(config, label_map=label_map, batch_size=4))
    weights = [int(batch.images.pixels.shape[0]) for batch in batches]
    assert weights == [4, 2]
    values = [float(model.losses(batch, training=False)["Loss/total_loss"]) for batch in batches]
    found = measure_losses(path, config, batch_size=4)["Loss/total_loss"]
    np.testing.assert_allclose(found, np.average(values, weights=weights), rtol=1e-4)
