"""A small real detector converted, run in LiteRT and judged."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detection_core.artifacts import detector as layout
from detection_core.artifacts.coco_names import MAP_50
from detection_core.artifacts.parity import ParityReport
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.tflite_metadata import read_description
from detection_core.artifacts.tflite_provenance import read_provenance
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import load_detector, write_detector
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.rewriting import rewrite
from detection_core.tasks import export, export_networks
from detection_core.tasks.compare_file import CompareOptions, compare_file
from detection_core.tasks.export import TFLiteExportOptions, export_tflite
from detection_core.tasks.parity import measure_parity
from tests.support.tflite_operations import list_operations
from tests.support.tiny_network import randomise
from tests.support.tiny_training import config_text, write_examples

LABELS = label_map_from_names(["dark", "bright"])
# One image only: with random weights there is nothing to learn from more.
OPTIONS = TFLiteExportOptions(max_map_drop=0.02, representative_examples=2, latency_runs=2)


class Workbench:
    """A float and a quantized detector, examples, and exports under a name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.examples = write_examples(root / "examples", images=3)
        shutil.copytree(self.examples / "Split-train", self.examples / "Split-eval")
        config = parse_pipeline_config(config_text())
        model = build_detector(config.model)
        randomise(model.network, 1)
        write_detector(model, config, LABELS, str(root / "float"))
        pixels = np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32)
        rewritten = rewrite(model, QuantizationOptions(delay=0))
        rewritten.calibrate([pixels])
        texts = {layout.QUANTIZATION: QUANTIZATION.format(rewritten.describe())}
        write_detector(rewritten.model, config, LABELS, str(root / "aware"), kind="quantized", texts=texts)

    def __call__(self, name: str, options: TFLiteExportOptions, *, quantized: str = "") -> ParityReport:
        return export_tflite(
            str(self.root / "float"),
            str(self.examples),
            options,
            tflite_dir=str(self.root / name / "tflite"),
            parity_dir=str(self.root / name / "parity"),
            quantized_model_dir=str(self.root / quantized) if quantized else "",
        )


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def report(workbench: Workbench) -> ParityReport:
    """As after a long measurement: what nothing refers to is gone when layers are compared."""

    def after_collection(*arguments: Any) -> ParityReport:
        gc.collect()
        return measure_parity(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "measure_parity", after_collection)
        return workbench("both", OPTIONS, quantized="aware")


def test_every_file_is_there_with_labels_and_description(workbench, report):
    folder = workbench.root / "both" / "tflite"
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["labels.txt", "model_float32.tflite", "model_int8.tflite"]
    assert (folder / "labels.txt").read_text() == "dark\nbright\n"
    for name in names[1:]:
        described = read_description((folder / name).read_bytes())
        assert described.labels == ("dark", "bright") and described.std == pytest.approx((127.5,) * 3)


def test_every_file_says_where_it_comes_from_and_how_good_it_is(workbench, report):
    folder = workbench.root / "both" / "tflite"
    for file in report.files:
        content = (folder / file.file).read_bytes()
        origin = read_provenance(content)
        assert origin.written_by.startswith("detflow ") and origin.split == "eval"
        assert (origin.format, origin.quantization) == (file.format, file.quantization)
        assert origin.made_from == file.made_from
        assert set(origin.metrics) == set(file.metrics)
        for name, value in file.metrics.items():
            assert origin.metrics[name] == (None if value < 0 else round(value, 4))
        described = read_description(content)
        assert described.labels == ("dark", "bright")
        assert described.score_threshold == pytest.approx(file.score_threshold, rel=1e-6)
        assert (file.score_threshold > 0) == (file.metrics[MAP_50] > 0)


def test_a_file_compared_again_is_as_the_gate_saw_it(workbench, report):
    folders = str(workbench.root / "float"), str(workbench.examples)
    for file, quantized in zip(report.files, ("", str(workbench.root / "aware")), strict=True):
        path = str(workbench.root / "both" / "tflite" / file.file)
        found = compare_file(path, *folders, quantized_model_dir=quantized)
        assert found == file.network and len(found.layers) > 40 and len(found.heads) == 2


def test_all_of_a_real_network_runs_in_int8(workbench, report):
    """Backbone, pyramid and heads: no convolution, sum or resize of the file is in float."""
    content = (workbench.root / "both" / "tflite" / "model_int8.tflite").read_bytes()
    operations = list_operations(content)
    counts = Counter(op.name for op in operations)
    assert counts["CONV_2D"] > 40 and counts["DEPTHWISE_CONV_2D"] > 20 and counts["ADD"] > 10
    for op in operations:
        if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            assert op.inputs == ("int8", "int8", "int32") and op.outputs == ("int8",), op
    names = [op.name for op in operations]
    before = operations[: names.index("TFLite_Detection_PostProcess")]
    floats = {op.name for op in before if "float32" in (*op.inputs, *op.outputs)}
    assert floats == {"DEQUANTIZE", "MUL", "LOGISTIC"}
    assert (counts["QUANTIZE"], counts["DEQUANTIZE"]) == (1, 2)


def test_the_float_file_finds_what_the_saved_model_finds(workbench, report):
    image = np.random.default_rng(3).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    served = load_runner(str(workbench.root / "float"))(image)
    file = load_runner(str(workbench.root / "both" / "tflite" / "model_float32.tflite"))(image)
    # The SavedModel suppresses class by class, the file across classes: the best detection is the same.
    np.testing.assert_allclose(file.scores[0], served.scores[0], atol=1e-5)
    np.testing.assert_allclose(file.boxes[0], served.boxes[0], atol=1e-5)
    assert file.classes[0] == served.classes[0]


def test_the_report_is_an_artifact(workbench, report):
    saved = json.loads((workbench.root / "both" / "parity" / "parity.json").read_text())
    assert saved["split"] == "eval" and saved["images"] == 3
    assert [(f["format"], f["quantization"]) for f in saved["files"]] == [
        ("float32", "none"),
        ("int8", "aware"),
    ]
    for file in saved["files"]:
        assert file["size_bytes"] == (workbench.root / "both" / "tflite" / file["file"]).stat().st_size
        assert set(file["latency_ms"]) == {"1", "2"} and min(file["latency_ms"].values()) > 0
        # Each against the network that it was made from, which is the quantized one for int8.
        network = file["network"]
        assert set(network["heads"]) == {"box_codes", "class_logits"} and network["images"] == 3
        assert min(network["heads"].values()) > network["least_db"] and network["layer"] == ""
        assert file["boxes"]["matched"] <= 1 and "apart" not in file
    # So small a network is half description; a real one comes to less than a third.
    assert saved["files"][1]["size_bytes"] < 0.6 * saved["files"][0]["size_bytes"]
    assert saved["blessed"] is report.blessed and len(saved["reasons"]) == 2


@pytest.fixture(scope="module")
def refused(workbench) -> ParityReport:
    """Post-training quantization, with a bound that no file can meet."""
    options = TFLiteExportOptions(
        formats=("int8",), max_map_drop=-2.0, representative_examples=2, latency_runs=0
    )
    return workbench("refused", options)


def test_without_a_quantized_detector_the_float_one_is_quantized(workbench, refused):
    (file,) = refused.files
    assert file.quantization == "post_training"
    content = (workbench.root / "refused" / "tflite" / "model_int8.tflite").read_bytes()
    assert {op.outputs for op in list_operations(content) if op.name == "CONV_2D"} == {("int8",)}


def test_a_missed_bound_is_a_verdict_not_an_error(workbench, refused):
    assert not refused.blessed and "more than -2.0000" in refused.reasons[0]
    assert (workbench.root / "refused" / "tflite" / "model_int8.tflite").exists()


def test_other_than_eight_bits_cannot_be_a_file(workbench):
    shutil.copytree(workbench.root / "aware", workbench.root / "four")
    path = workbench.root / "four" / layout.SERVING / layout.EXTRA / layout.QUANTIZATION
    record = json.loads(path.read_text())
    record["settings"]["weight_bits"] = 4
    path.write_text(json.dumps(record))
    with pytest.raises(ExportError, match=r"weight_bits: expected 8, as int8 has, found 4; quantize with"):
        workbench("four_bits", TFLiteExportOptions(max_map_drop=0.02, formats=("int8",)), quantized="four")
    assert not (workbench.root / "four_bits" / "tflite").exists()


@pytest.fixture(scope="module")
def side_by_side(workbench) -> ParityReport:
    formats = ("int8_post_training", "int8", "int16x8")
    options = TFLiteExportOptions(
        formats=formats, max_map_drop=2.0, representative_examples=2, latency_runs=0
    )
    return workbench("side", options, quantized="aware")


def test_quantized_after_training_and_aware_stand_side_by_side(workbench, side_by_side, refused):
    found = [(file.format, file.file, file.quantization, file.made_from) for file in side_by_side.files]
    assert found == [
        ("int8_post_training", "model_int8_post_training.tflite", "post_training", "float"),
        ("int8", "model_int8.tflite", "aware", "quantization_aware"),
        ("int16x8", "model_int16x8.tflite", "post_training", "float"),
    ]
    for _, name, quantization, made_from in found:
        origin = read_provenance((workbench.root / "side" / "tflite" / name).read_bytes())
        assert (origin.quantization, origin.made_from) == (quantization, made_from)
    # What is quantized after training is the same with a quantization-aware network beside it and without.
    alone, beside = (
        list_operations((workbench.root / folder / "tflite" / name).read_bytes())
        for folder, name in (("refused", "model_int8.tflite"), ("side", "model_int8_post_training.tflite"))
    )
    assert alone == beside


@pytest.fixture(scope="module")
def trained(workbench) -> str:
    """Folder of a detector with weights of 4 bits that training has moved away from the float detector's."""
    float_detector = load_detector(str(workbench.root / "float"))
    rewritten = rewrite(float_detector.model, QuantizationOptions(delay=0, weight_bits=4))
    rewritten.calibrate([np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32)])
    rng = np.random.default_rng(5)
    for weight in rewritten.aware.network.trainable_weights:
        weight.assign(weight * rng.uniform(0.9, 1.1, weight.shape))
    texts = {layout.QUANTIZATION: QUANTIZATION.format(rewritten.describe())}
    folder = str(workbench.root / "trained")
    config = float_detector.config
    write_detector(rewritten.model, config, LABELS, folder, kind="quantized", texts=texts)
    return "trained"


def of_trained_weights(workbench, trained: str, formats: tuple[str, ...]) -> ParityReport:
    options = TFLiteExportOptions(
        formats=formats, max_map_drop=2.0, representative_examples=2, latency_runs=0
    )
    return workbench("_".join(formats), options, quantized=trained)


def test_weights_of_four_bits_that_were_trained_so_are_those_of_the_file(workbench, trained):
    both = of_trained_weights(workbench, trained, ("int4_weights_aware", "int4_weights"))
    aware, after = both.files
    assert (aware.made_from, aware.quantization) == ("quantization_aware", "post_training")
    assert (after.made_from, after.quantization) == ("float", "post_training")
    # Against the networks that they are made from: one is on the grid of the file already.
    assert min(aware.network.heads.values()) > 35
    assert max(after.network.heads.values()) < 20
    folder = workbench.root / "int4_weights_aware_int4_weights" / "tflite"
    origin = read_provenance((folder / aware.file).read_bytes())
    assert (origin.format, origin.made_from) == ("int4_weights_aware", "quantization_aware")


@pytest.mark.zoo
def test_every_format_is_made_of_trained_weights(workbench, trained):
    formats = ("float16_aware", "dynamic_range_aware", "int16x8_aware", "int8_weights_aware")
    report = of_trained_weights(workbench, trained, formats)
    for file in report.files:
        assert file.made_from == "quantization_aware"
        assert min(file.network.heads.values()) >= file.network.least_db
    assert [file.quantization for file in report.files] == ["none", *["post_training"] * 3]


def test_formats_of_a_network_that_is_not_there_are_refused(workbench):
    options = TFLiteExportOptions(max_map_drop=0.02, formats=("float32", "int4_weights_aware"))
    with pytest.raises(ExportError, match=r"formats: expected formats of the float network, .* found int4_w"):
        workbench("nothing", options)
    assert not (workbench.root / "nothing").exists()


def test_layers_stay_in_float_until_the_budget_is_met_and_the_file_names_them(workbench, monkeypatch):
    # Float, integers, one layer in float, two of them: the second wins back all that was lost.
    scores = iter([0.9, 0.5, 0.5, 0.9])
    monkeypatch.setattr(
        export_networks,
        "coco_metrics_of",
        lambda models, *_, **__: {name: {MAP_50: next(scores)} for name in models},
    )
    options = TFLiteExportOptions(
        formats=("int8_mixed",), max_map_drop=0.1, representative_examples=2, latency_runs=0
    )
    (file,) = workbench("mixed", options).files
    assert file.quantization == "post_training"
    content = (workbench.root / "mixed" / "tflite" / "model_int8_mixed.tflite").read_bytes()
    layers = read_provenance(content).float_layers
    assert len(layers) >= 2
    kinds = {op.outputs for op in list_operations(content) if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D")}
    assert kinds == {("int8",), ("float32",)}
    path = str(workbench.root / "mixed" / "tflite" / "model_int8_mixed.tflite")
    again = CompareOptions(representative_examples=2)
    found = compare_file(path, str(workbench.root / "float"), str(workbench.examples), again)
    assert found == file.network


@pytest.mark.parametrize(("formats", "found"), [(("float32", "int4"), "int4"), ((), "none")])
def test_formats_that_do_not_exist_are_refused(formats, found):
    known = ", ".join(FORMATS)
    with pytest.raises(ConfigError, match=f"formats: expected some of {known}, found {found}"):
        TFLiteExportOptions(max_map_drop=0.02, formats=formats)


@pytest.mark.parametrize("name", ["max_detections", "representative_examples"])
def test_nothing_to_give_or_to_measure_with_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name}: expected at least 1, found 0"):
        TFLiteExportOptions(max_map_drop=0.02, **{name: 0})


_EXPORT_ALL = """
import sys
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.tasks.export import TFLiteExportOptions, export_tflite
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
root, output = sys.argv[1:]
options = TFLiteExportOptions(
    max_map_drop=2.0, formats=tuple(FORMATS), latency_runs=0, representative_examples=4
)
folders = {"tflite_dir": output + "/tflite", "parity_dir": output + "/parity"}
export_tflite(
    root + "/float", root + "/examples", options, quantized_model_dir=root + "/aware", **folders
)
saved = SavedModelOptions(frozen_graph=True)
export_saved_model(root + "/float", output + "/saved", saved, examples_dir=root + "/examples")
"""


@pytest.mark.zoo
@pytest.mark.timeout(3600)
def test_two_processes_write_the_same_files(workbench):
    """All that is exported of a detector folder, and what the gate says of it."""
    outputs = [workbench.root / f"process_{seed}" for seed in (1, 2)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _EXPORT_ALL, str(workbench.root), str(output)],
            env={**os.environ, "PYTHONHASHSEED": output.name[-1]},
        )
        for output in outputs
    ]
    try:
        assert [process.wait() for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    written = [{str(p.relative_to(o)): p for p in o.rglob("*") if p.is_file()} for o in outputs]
    assert written[0].keys() == written[1].keys() and len(written[0]) > len(FORMATS) + 10
    differing = [
        name for name, path in written[0].items() if path.read_bytes() != written[1][name].read_bytes()
    ]
    assert differing == []
