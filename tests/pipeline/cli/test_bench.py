"""Verbs that measure and look into files."""

import dataclasses
from unittest import mock

import pytest

from detection_core.artifacts.benchmark import BENCHMARK
from detection_core.artifacts.evaluation import MAP, MAP_50
from detection_core.artifacts.parity import LayerNoise, NetworkParity
from detection_core.artifacts.quantization import SENSITIVITY, Accuracy, FloatGroup
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.exporters.tflite_description import add_description
from detection_core.report.page import DASH
from detection_core.tasks import compare_file, input_benchmark, quantization_sensitivity
from tests.support.artifact_samples import sensitivity
from tests.support.bare_tflite import DECODING, heads
from tests.support.blobs import BlobDetector, save
from tests.support.edge_files import convolutions
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text, write_examples


def test_table_json_and_page_of_two_versions(tmp_path, cli):
    files = [tmp_path / version for version in ("1", "2")]
    for folder in files:
        folder.mkdir()
        (folder / "m.tflite").write_bytes(convolutions())
    words = ["bench", *files, "--runs", "3", "--threads", "1", "--delegates", "xnnpack"]
    text = cli(*words, "--output", tmp_path / "out")
    assert "1/m.tflite" in text and "2/m.tflite" in text and "CONV_2D" in text and "images/s" in text
    assert len(BENCHMARK.read(str(tmp_path / "out")).files) == 2
    assert "<h1>Benchmark</h1>" in (tmp_path / "out" / "index.html").read_text()
    assert [file["operators"] for file in cli.json(*words, "--no-operators")["files"]] == [[], []]


def test_saved_models_are_measured_by_size_of_the_batch_or_refused_in_one_message(tmp_path, cli):
    saved_model = save(BlobDetector(), tmp_path / "model")
    words = ["bench", saved_model, "--batch-sizes", "1,2", "--runs", "3", "--image-size", "40x30"]
    (found,) = cli.json(*words)  # a batch of two is not what this model takes
    assert found["batch_size"] == 1 and found["images_per_second"] > 0 and "images/s" in cli(*words)
    (tmp_path / "m.tflite").write_bytes(b"no model")
    for words, message in (
        (["gone"], "expected"),
        ([tmp_path / "m.tflite"], "expected"),
        ([tmp_path, "--threads", "x"], "expected"),
        ([saved_model, "--image-size", "40"], "expected WIDTHxHEIGHT"),
        ([saved_model, "--image-size", "4²x30"], "expected WIDTHxHEIGHT"),
        ([saved_model, "--batch-sizes", "one"], "--batch-sizes: expected numbers"),
        ([saved_model, "--batch-sizes", "0"], "expected batches, runs and image sides from 1"),
        ([saved_model, "other.tflite"], "other.tflite: expected only SavedModels"),
    ):
        assert message in cli.refused("bench", *words)


_PER_SECOND = {"READ": 4000, "PARSE": 4000, "DECODE": 500, "AUGMENT": 2000, "BATCH": 4000}
RATES = {getattr(input_benchmark, stage): rate for stage, rate in _PER_SECOND.items()}
MEASURED = input_benchmark.InputBenchmark(

    stages={n: input_benchmark.Throughput(images_per_second=r, cpu_ms=1000 / r) for n, r in RATES.items()},
    whole=input_benchmark.Throughput(images_per_second=200.0, cpu_ms=5.0),
    bare=input_benchmark.Throughput(images_per_second=400.0, cpu_ms=2.0),
    step=input_benchmark.Throughput(images_per_second=100.0, cpu_ms=20.0), cores=2, gpus=0, batch_size=3,
    decoded_bytes=5_000_000, in_memory=True,
)  # fmt: skip


@pytest.fixture
def words(tmp_path):
    (tmp_path / "pipeline.config").write_text(config_text(backbone=PLAIN))
    return ["bench", "input", tmp_path / "pipeline.config", "--images", "4", "--seconds", "0.05"]


def test_each_stage_and_what_bounds_the_run_are_told(words, cli, monkeypatch):
    measure = mock.Mock(return_value=MEASURED)
    monkeypatch.setattr(input_benchmark, "bench_input", measure)
    lines = cli(*words).splitlines()
    assert measure.call_args.args[1] == input_benchmark.InputBenchOptions(images=4, seconds=0.05, step=True)
    assert [line.split()[-2:] for line in lines[2:4]] == [["4000.0", "0.25"], ["500.0", "2.00"]]
    assert lines[6].split() == ["whole", "input", "200.0", "5.00"]
    assert lines[8].split() == ["training", "step", "of", "3", "100.0", "20.00"]
    assert lines[10] == "2 cores; the whole input gives 0.50 of bare decoding's images a second"
    # Of 5 ms an image 2.5 are left without reading and decoding.
    assert lines[11].endswith(" and are kept in memory: about 400.0 images/s after the first epoch")
    assert lines[12] == "bound by the step: training gets about 80.0 images/s, as the two share the cores"
    measure.return_value = dataclasses.replace(MEASURED, in_memory=False, gpus=1)
    assert cli(*words).splitlines()[11].endswith(", too much to keep them in memory: each epoch decodes")
    assert cli(*words).endswith("about 100.0 images/s, as the two work at the same time\n")
    measure.return_value = dataclasses.replace(MEASURED, step=None)
    assert cli.json(*words)["later_epochs"] == {"images_per_second": 400.0, "cpu_ms": 2.5}


def test_examples_are_measured_for_a_script_and_wrong_arguments_are_one_message(words, tmp_path, cli):
    examples = ["--examples", write_examples(tmp_path / "examples")]
    found = cli.json(*words, *examples, "--no-step", "--set", "train_config.batch_size=3")
    assert found["batch_size"] == 3 and found["step"] is None and found["bound"] is None
    whole, bare = (found[name]["images_per_second"] for name in ("whole", "bare"))
    assert found["of_bare"] == pytest.approx(whole / bare)
    for rest, message in (
        ([], "expected one pipeline.config"),
        (["a.config", "b.config"], "found 2"),
        (["gone.config"], "gone.config"),
    ):
        assert message in cli.refused("bench", "input", *rest)


LAYERS = [LayerNoise(layer=f"layer_{i}", operation="CONV_2D", db=50.0 - i) for i in range(24)]
NEAR = NetworkParity(images=2, least_db=20.0, heads={"class_logits": 40.0, "box_codes": 31.25}, layers=LAYERS)
APART = NetworkParity(
    images=2, least_db=20.0, heads={"box_codes": 3.0}, layer="tower", operation="ADD", layer_db=4.0,
    layers=LAYERS,
)  # fmt: skip
WORDS = ["compare", "f.tflite", "--model", "m", "--examples", "e"]


def test_heads_and_the_noisiest_operations_or_all_as_they_run(monkeypatch, cli):
    compare = mock.Mock(return_value=NEAR)
    monkeypatch.setattr(compare_file, "compare_file", compare)
    more = ["--images", "2", "--split", "test", "--representative-examples", "9", "--quantized-model", "q"]
    rows = [line.split() for line in cli(*WORDS, *more).splitlines()]
    options = compare_file.CompareOptions(images=2, split="test", representative_examples=9)
    compare.assert_called_once_with("f.tflite", "m", "e", options, quantized_model_dir="q")
    assert ["box_codes", "31.2"] in rows and ["class_logits", "40.0"] in rows
    listed = [row for row in rows if row and row[0].startswith("layer_")]
    assert listed[0] == ["layer_23", "CONV_2D", "27.0"] and len(listed) == 20
    rows = [line.split() for line in cli(*WORDS, "--all").splitlines()]
    listed = [row[1] for row in rows if len(row) == 4 and row[1].startswith("layer_")]
    assert listed == [layer.layer for layer in LAYERS]


def test_what_is_apart_is_named_and_is_a_problem_and_a_missing_file_is_one_line(monkeypatch, cli, tmp_path):
    told = cli.refused("compare", tmp_path / "none.tflite", "--model", "m", "--examples", "e")
    assert f"{tmp_path}/none.tflite: expected a .tflite file, found none" in told
    monkeypatch.setattr(compare_file, "compare_file", lambda *_, **__: APART)
    assert "first apart: tower (ADD, 4.0 dB)" in cli(*WORDS, code=1)
    found = cli.json(*WORDS, code=1)
    assert found["layer"] == "tower" and found["problems"][0].startswith("raw heads box_codes 3.0 dB")


ACCURACY = Accuracy(
    split="eval",
    images=3,
    float_metrics={MAP: 0.5, MAP_50: 0.75},
    quantized_metrics={MAP: 0.25, MAP_50: 0.5},
    groups=[FloatGroup(group="box head", layers=4, metrics={MAP: 0.375, MAP_50: 0.625}, gained=0.125)],
)
LOST = dataclasses.replace(sensitivity(), accuracy=ACCURACY)


def test_table_file_and_json(tmp_path, cli, monkeypatch):
    words = ["sensitivity", "--model", "m", "--examples", "e", "--output", tmp_path / "out"]
    assert "images: expected a number from 0, found -1" in cli.refused(*words, "--images", "-1")
    assert not (tmp_path / "out").exists()
    measure = mock.Mock(return_value=LOST)
    monkeypatch.setattr(quantization_sensitivity, "measure_sensitivity", measure)
    text = cli(*words, "--images", "7", "--representative-examples", "9", "--split", "test")
    assert SENSITIVITY.read(str(tmp_path / "out")) == LOST
    rows = [line.split() for line in text.splitlines()]
    assert ["nothing", "0", "0.250", DASH, "0.500"] in rows
    assert ["box", "head", "4", "0.375", "+0.125", "0.625"] in rows
    assert ["everything", "4", "0.500", "+0.250", "0.750"] in rows
    stem = next(row for row in rows if row[:1] == ["stem"])
    assert stem[-7:] == ["31.5", "30.2", "0.01", "0.5", "-1", "to", "6"]
    assert cli.json(*words, "--no-accuracy")["schema_version"] == 1
    options = quantization_sensitivity.SensitivityOptions(examples=9, split="test", images=7)
    first, second = (call.args for call in measure.call_args_list)
    assert first == ("m", "e", options) and options.accuracy and not second[2].accuracy


def test_metrics_of_images_without_objects_are_dashes_and_nothing_is_gained(tmp_path, cli, monkeypatch):
    unknown = {MAP: None, MAP_50: None}
    accuracy = dataclasses.replace(ACCURACY, float_metrics=unknown, quantized_metrics=unknown)
    lost = dataclasses.replace(LOST, accuracy=accuracy)
    monkeypatch.setattr(quantization_sensitivity, "measure_sensitivity", lambda *_: lost)
    words = ["sensitivity", "--model", "m", "--examples", "e", "--output", tmp_path / "out"]
    rows = [line.split() for line in cli(*words).splitlines()]
    assert ["everything", "4", DASH, "+0.000", DASH] in rows


ORIGIN = Provenance(model="tiny", format="int8", config_hash="abc", metrics={"mAP": 0.5})


def described(**more):
    return TFLiteDescription(name="m", mean=(1.0,), std=(2.0,), labels=("a", "b"), **more)


def test_tensors_labels_origin_and_metrics_are_told_to_people_and_scripts(tmp_path, cli):
    path = tmp_path / "m.tflite"
    path.write_bytes(with_provenance(add_description(convolutions(), described()), ORIGIN))
    lines = {line.split("  ")[0]: line for line in cli("inspect", path).splitlines()}
    assert "mean 1, std 2" in lines["normalisation"] and lines["labels"].endswith("2: a, b")
    assert lines["config hash"].endswith("abc") and lines["data fingerprint"].endswith("unknown")
    assert "image" in lines["input 0"] and "float32" in lines["input 0"] and lines["mAP"].endswith("0.5000")
    assert lines["score threshold"].endswith("none: every detection is shown")
    data = cli.json("inspect", path)
    assert data["operators"] == {"CONV_2D": 2} and data["provenance"]["metrics"] == {"mAP": 0.5}
    path.write_bytes(add_description(heads(), described(score_threshold=0.25), DECODING))
    assert "score threshold 0.2500 (highest F1)" in " ".join(cli("inspect", path).split())


def test_a_file_without_origin_says_so_and_what_an_accelerator_takes_over_is_told_and_decides(tmp_path, cli):
    whole, cut = tmp_path / "whole.tflite", tmp_path / "cut.tflite"
    whole.write_bytes(convolutions())
    assert "does not say where it comes from" in cli("inspect", whole)
    assert "gone" in cli.refused("inspect", tmp_path / "gone")
    cut.write_bytes(convolutions(between="reverse"))
    told = cli("inspect", whole, "--for", "xnnpack")
    assert "2 of 2 operations before post-processing, in 1 part(s): 2" in told
    found = cli.json("inspect", cut, "--for", "xnnpack,edgetpu", code=1)["accelerators"]
    assert [(one["family"], one["parts"]) for one in found] == [("xnnpack", [1, 1]), ("edgetpu", [])]
    found = cli.json("inspect", whole, "--for", "npu, hexagon", code=1)["accelerators"]
    assert [(one["family"], one["dead"]) for one in found] == [
        ("qualcomm", False), ("mediatek", False), ("hexagon", True),
    ]  # fmt: skip
    assert "Hexagon DSP (Qualcomm), dead: " in cli("inspect", whole, "--for", "hexagon", code=1)
    assert "expected some of gpu, " in cli.refused("inspect", cut, "--for", "abacus")
