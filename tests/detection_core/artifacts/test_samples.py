"""Files that steps leave, as they are written and read back; those of older versions are read for ever."""

import dataclasses
import json
import math
from pathlib import Path

from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from detection_core.artifacts import detector as layout
from detection_core.artifacts import prediction, quantization
from detection_core.artifacts.benchmark import BENCHMARK
from detection_core.artifacts.blessing import REASONS
from detection_core.artifacts.data_statistics import (
    SCHEMA_FILE,
    SPAN_STATISTICS,
    STATISTICS_FILE,
    Histogram,
    SampleStatistics,
    SpanStatistics,
    split_file,
    write_message,
)
from detection_core.artifacts.dataset_card import CARD
from detection_core.artifacts.detector import ENSEMBLE, MODEL, Ensemble, find_model
from detection_core.artifacts.evaluation import CURVES, METRICS, EvalReport, finite
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.model_run import HISTORY, QUANTIZATION_REPORT, TRAIN_REPORT
from detection_core.artifacts.parity import PARITY, FileReport, ParityReport
from detection_core.artifacts.pictures import PICTURES, list_pictures
from detection_core.artifacts.prediction import PREDICTION, DetectedObject, MaskRuns, Prediction
from detection_core.artifacts.published import (
    CURRENT,
    PUSHED,
    VERSION,
    Deployment,
    PushReport,
)
from detection_core.artifacts.quantization import QUANTIZATION, SENSITIVITY, QuantizedLayer
from detection_core.artifacts.run_info import RUN
from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest, write_manifest
from detection_core.errors import ContractError
from detection_core.evaluation.thresholds import judge, parse_thresholds
from detection_core.storage import files
from detection_core.storage.shard_cache import Shard
from tests.support.artifact_samples import benchmark, sensitivity
from tests.support.cases import cases, refused
from tests.support.command_line import run_python

FOLDER = Path(__file__).parent / "samples"
_NAMED = (CURRENT, CURVES, CARD, MANIFEST, HISTORY, METRICS, MODEL, PARITY, PUSHED, QUANTIZATION, REASONS)
SAMPLES = {file.name: file for file in (*_NAMED, RUN, TRAIN_REPORT)} | {
    "1795305663.json": VERSION,
    "pictures_index.jsonl": PICTURES,
    "prediction.json": PREDICTION,
    "quantized_train_report.json": QUANTIZATION_REPORT,
}
OBJECTS = {name: file for name, file in SAMPLES.items() if isinstance(file, JsonFile)}
VALUES = {"a": math.nan, "b": 0.5, "c": -1.0}
JPEG = b"\xff\xd8\xff\xe0 picture"
FOUND = DetectedObject(label=3, name="cat", score=0.123456789, box=(0.1, 0.2, 1 / 3, 1.0))
FULL_PREDICTION = Prediction(image="a.png", height=4, width=6, detections=(FOUND,), picture="out/a.jpg")
SETTINGS = {"delay": 0, "weight_bits": 8, "activation_bits": 8, "symmetric": False}
REMOTE = Shard(uri="s3://b/x#1/a.tfrecord.gz", size=12, crc32c="0012abcd", examples=3)
LOCAL = Shard(uri="/data/a.tfrecord", size=12, crc32c="0012abcd", examples=3)
SAID = {"kind": "float", "name": "ssd", "parameters": 3, "num_classes": 2, "input_size": (64, 32)}
INFO = layout.DetectorInfo(**SAID, extra={"steps": 5})


def read_sample(name):
    return (FOLDER / name).read_text(encoding="utf-8")


@cases(*OBJECTS)
def test_what_an_older_version_wrote_is_read_with_all_that_it_says(*, name):
    file, old = OBJECTS[name], json.loads(read_sample(name))
    assert _without_what_is_new(json.loads(file.format(file.parse(read_sample(name), name))), old) == old


def _without_what_is_new(new, old):
    if isinstance(old, dict):
        return {key: _without_what_is_new(new[key], value) for key, value in old.items()}
    if isinstance(old, list):
        assert len(new) == len(old)
        return [_without_what_is_new(*pair) for pair in zip(new, old, strict=True)]
    return new


@cases(*OBJECTS)
def test_a_field_of_a_later_version_is_ignored_and_a_newer_layout_refused(*, name):
    file, old = OBJECTS[name], json.loads(read_sample(name))
    assert file.parse(json.dumps({**old, "colour": "blue"}), name) == file.parse(json.dumps(old), name)
    newer = json.dumps({**old, file.version_key: file.version + 1})
    assert refused(ContractError, "a newer detflow has written this", file.parse, newer, name).where == name


def test_lines_lists_and_manifests_are_read_with_all_that_they_say(tmp_path):
    text = read_sample("pictures_index.jsonl")
    (tmp_path / PICTURES.name).write_text(text)
    assert PICTURES.format(PICTURES.read(str(tmp_path))) == text
    (tmp_path / MANIFEST.name).write_text(read_sample(MANIFEST.name))
    assert [shard.examples for shard in read_manifest(str(tmp_path))] == [3, 2]
    lines = [HISTORY.parse_line(line, "history.jsonl") for line in read_sample("history.jsonl").splitlines()]
    assert [line.step for line in lines] == [20, 40, 60] and lines[0].losses["Loss/total_loss"] > 0


def test_files_are_read_as_they_were_written(tmp_path):
    histogram = Histogram(bins=["cat"], counts=[3], squares=[5], products=[5], images=[2], total_squares=5)
    sample = SampleStatistics(images=4, empty_images=2, objects=3, histograms={"class": histogram})
    file = FileReport(file="m", format="int8", metrics={"a": 0.5}, latency_ms={"1": 2.0}, passed=True)
    for kind, value in (
        (BENCHMARK, benchmark()),
        (SENSITIVITY, sensitivity()),
        (SENSITIVITY, dataclasses.replace(sensitivity(), accuracy=None)),
        (SPAN_STATISTICS, SpanStatistics(span="2026-11-21", statistics=sample)),
        (PARITY, ParityReport(split="test", images=3, files=[file], blessed=True, reasons=["r"])),
        (PUSHED, PushReport(pushed=True, version=3, reasons=[], path="/pushed")),
    ):
        kind.write(str(tmp_path), value)
        assert kind.read(str(tmp_path)) == value
    assert benchmark().files[0].operator_milliseconds() == {"CONV_2D": 1.25}
    assert '"schema_version": 1' in (tmp_path / "sensitivity.json").read_text()
    (tmp_path / SPAN_STATISTICS.name).write_text('{"span": 1}')
    refused(ContractError, "remove it", SPAN_STATISTICS.read, str(tmp_path))
    nothing = PushReport(pushed=False, version=None, reasons=["mAP fell"])
    expected = {"pushed": False, "version": None, "reasons": ["mAP fell"], "schema_version": 1}
    assert json.loads(PUSHED.format(nothing)) == expected


def test_json_without_what_is_not_a_number():
    verdicts = judge(parse_thresholds({"a": {"lower_bound": 0.5}}, VALUES), VALUES, None)
    said = {"split": "test", "images": 3, "blessed": False, "reasons": ("x",)}
    report = EvalReport(metrics=finite(VALUES), thresholds=verdicts, **said)
    data = json.loads(METRICS.format(report), parse_constant=lambda name: 1 / 0)
    assert data["metrics"] == {"a": None, "b": 0.5, "c": -1.0}
    assert data["baseline"] is None and data["schema_version"] == 1
    text = "a could not be measured: no objects of that kind in the split"
    said = {"metric": "a", "kind": "lower_bound", "bound": 0.5, "within_noise": False, "passed": False}
    unknown = dict.fromkeys(("value", "baseline", "confidence", "interval"))
    assert data["thresholds"][0] == {**said, **unknown, "text": text}
    assert METRICS.parse(METRICS.format(report), "metrics.json") == report


def test_messages_are_written_where_tfx_looks_for_them(tmp_path):
    statistics = statistics_pb2.DatasetFeatureStatisticsList()
    statistics.datasets.add(num_examples=3)
    write_message(split_file(str(tmp_path), "train", STATISTICS_FILE), statistics)
    written = (tmp_path / "Split-train" / "FeatureStats.pb").read_bytes()
    assert statistics_pb2.DatasetFeatureStatisticsList.FromString(written) == statistics
    write_message(str(tmp_path / SCHEMA_FILE), schema_pb2.Schema(feature=[{"name": "größe"}]))
    assert 'name: "größe"' in (tmp_path / SCHEMA_FILE).read_text(encoding="utf-8")


def test_latency_is_by_threads_and_a_file_that_does_not_say_that_it_passed_did_not():
    for latency, rows in (({"2": 3.0, "1": 5.0}, [(1, 5.0), (2, 3.0)]), ({}, [])):
        text = json.dumps({"files": [{"file": "m.tflite", "metrics": {}, "latency_ms": latency}]})
        (file,) = PARITY.parse(text, "parity.json").files
        assert file.latencies == rows, latency
    report = PARITY.parse('{"files": [{"file": "m.tflite", "metrics": {}}]}', "parity.json")
    assert not report.blessed and not report.files[0].passed


def write_index(folder: Path, *names: str) -> None:
    pictures = folder / "pictures"
    pictures.mkdir(exist_ok=True)
    entries = [{"kind": "miss", "file": name, "caption": name, "source_id": "1"} for name in names]
    (pictures / "index.jsonl").write_text("\n".join(map(json.dumps, entries)))


def test_pictures_of_the_folder_are_found_by_the_index_and_no_other_file_is_read(tmp_path, caplog):
    write_index(tmp_path, "a.jpg")
    (tmp_path / "pictures" / "a.jpg").write_bytes(JPEG)
    (picture,) = list_pictures(str(tmp_path))
    assert (picture.kind, picture.caption, picture.read()) == ("miss", "a.jpg", JPEG)
    (tmp_path / "secret.jpg").write_bytes(JPEG)
    (tmp_path / "key").write_text("secret")
    write_index(tmp_path, "../secret.jpg", f"{tmp_path}/secret.jpg", "..", "", "link.jpg", "no.jpg", "a\0b")
    (tmp_path / "pictures" / "link.jpg").symlink_to(tmp_path / "key")
    assert [p.caption for p in list_pictures(str(tmp_path))] == ["link.jpg", "no.jpg"]
    assert [p.read() for p in list_pictures(str(tmp_path))] == [b"", b""]
    assert "is no file of this folder" in caplog.text
    for text in ("{", "{}", "[3]", '["a"]', "[" * 100_000):
        (tmp_path / "pictures" / "index.jsonl").write_text(text)
        assert list_pictures(str(tmp_path)) == [], text


def test_a_file_says_class_and_five_decimals_and_is_read_back(tmp_path):
    prediction.write_prediction(str(tmp_path / "a"), FULL_PREDICTION)
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == FULL_PREDICTION.as_json()
    found = {"class": 3, "name": "cat", "score": 0.12346, "box": [0.1, 0.2, 0.33333, 1.0]}
    assert written["detections"] == [found]
    assert prediction.PREDICTION.parse((tmp_path / "a.json").read_text(), "a.json").as_json() == written
    shaped = dataclasses.replace(FOUND, mask=MaskRuns(size=(4, 6), counts="04"), keypoints=((1 / 3, 0.5),))
    full = dataclasses.replace(FULL_PREDICTION, detections=(shaped,))
    prediction.write_prediction(str(tmp_path / "a"), full)
    (detection,) = prediction.PREDICTION.parse((tmp_path / "a.json").read_text(), "a.json").detections
    assert detection == dataclasses.replace(shaped.rounded(), keypoints=((0.33333, 0.5),))
    assert Prediction(image="a.png", error="no image").as_json() == {"image": "a.png", "error": "no image"}


def test_layers_are_counted_by_their_kinds_and_one_without_a_range_says_nothing_of_one():
    coverage = quantization.Coverage(
        convolutions=2, quantized_convolutions=2, weights=6, quantized_weights=6, fraction=1.0
    )
    layers = [QuantizedLayer(layer="a", range=(0.0, 6.0)), QuantizedLayer(layer="b", folded="bn")]
    settings = quantization.QuantizationOptions(**SETTINGS)
    written = quantization.Quantization(settings=settings, quantized=layers, coverage=coverage)
    assert written.kinds == {"layer": 2}
    text = QUANTIZATION.format(written)
    first, second = json.loads(text)["quantized"]
    assert first["range"] == [0.0, 6.0] and "folded" not in first
    assert second["folded"] == "bn" and "range" not in second
    assert QUANTIZATION.parse(text, "quantization.json").quantized == layers


def test_a_manifest_is_read_back_and_any_change_of_it_is_noticed(tmp_path):
    folder, beginnings = str(tmp_path), set()
    for shards in ([REMOTE, LOCAL], [REMOTE], [LOCAL]):
        write_manifest(folder, shards)
        assert read_manifest(folder) == shards
        beginnings.add((tmp_path / MANIFEST.name).read_text()[:90])
    assert len(beginnings) == 3
    write_manifest(str(tmp_path), [REMOTE])
    path = tmp_path / MANIFEST.name
    path.write_text(path.read_text().replace('"size": 12', '"size": 13'))
    refused(ContractError, "the file was changed; make the examples again", read_manifest, str(tmp_path))
    write_manifest(str(tmp_path), [])
    refused(ContractError, "found no shard", read_manifest, str(tmp_path))
    for text in ("[", "[]", '{"shards": [{"uri": "a"}]}', '{"shards": 3}'):
        path.write_text(text)
        error = refused(ContractError, "expected the JSON that ExampleGen writes", read_manifest, folder)
        assert error.where == str(path), text


def test_a_destination_stands_for_its_deployed_version_and_a_folder_of_files_for_the_only_one(tmp_path):
    CURRENT.write(str(tmp_path), Deployment(7, ()))
    assert find_model(str(tmp_path)) == str(tmp_path / "saved_model" / "7")
    CURRENT.write(str(tmp_path), Deployment(None, (7,)))
    refused(ContractError, "expected a deployed version, found none", find_model, str(tmp_path))
    folder = tmp_path / "tflite"
    files.write_text(f"{folder}/labels.txt", "cat")
    assert find_model(str(folder)) == str(folder)
    (folder / "model_int8.tflite").write_bytes(b"")
    assert find_model(str(folder)) == str(folder / "model_int8.tflite")
    (folder / "model_float32.tflite").write_bytes(b"")
    found = r"found 2 \.tflite files; pass one of them: model_float32\.tflite, "
    refused(ContractError, found, find_model, str(folder))


@cases("saved_model.pb", "Format-Serving/saved_model.pb")
def test_every_other_path_stays_as_it_is(tmp_path, *, inside):
    path = tmp_path / inside
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    (tmp_path / "model.tflite").write_bytes(b"")
    ensemble = tmp_path / "ensemble"
    ensemble.mkdir()
    ENSEMBLE.write(str(ensemble), Ensemble(detectors=("a.tflite",), iou_threshold=0.5))
    (ensemble / "a.tflite").write_bytes(b"")
    for given in ("", "missing", tmp_path, tmp_path / "model.tflite", ensemble):
        assert find_model(str(given)) == str(given)


def test_a_description_is_found_read_and_refused_where_this_version_cannot_read_it(tmp_path):
    detector = tmp_path / "model"
    files.write_text(str(detector / layout.SERVING / layout.SAVED_MODEL), "graph")
    path = detector / layout.SERVING / layout.EXTRA / layout.MODEL_INFO
    files.write_text(str(path), layout.MODEL.format(INFO))
    refused(ContractError, "expected a detector folder", layout.serving_dir, str(tmp_path))
    files.write_text(str(tmp_path / layout.SAVED_MODEL), "graph")
    found = r"assets.extra/detflow/model.json.*did not write"
    refused(ContractError, found, layout.read_info, str(tmp_path))
    serving = str(detector / layout.SERVING)
    for given in (str(detector), serving):
        assert layout.serving_dir(given) == serving and layout.read_info(given) == INFO
    known = json.loads(layout.MODEL.format(INFO))
    path.write_text(json.dumps({**known, "colour": "blue"}))
    assert layout.read_info(str(detector)) == INFO
    path.write_text(json.dumps({"format_version": layout.MODEL.version + 1, "shape": [1, 2]}))
    refused(ContractError, "a newer detflow", layout.read_info, str(detector))
    for text, message in (
        ("not json", "expected the JSON that a training writes"),
        ("[]", "expected an object"),
        ("\xff", "expected text, found bytes"),
        ('{"kind": "float"}', "expected name, found none"),
        (json.dumps({**known, "format_version": 9}), "found 9"),
        (json.dumps({**known, "kind": "pickled"}), "'pickled'"),
    ):
        path.write_bytes(text.encode("latin-1"))
        refused(ContractError, message, layout.read_info, str(detector))


def test_reading_needs_no_tensorflow():
    code = "import sys, detection_core.artifacts.detector; sys.exit('tensorflow' in sys.modules)"
    run_python(code)
