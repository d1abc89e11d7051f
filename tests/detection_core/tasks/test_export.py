"""A small real detector converted, run in LiteRT and judged."""

import dataclasses
import gc
import itertools
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
from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.quantization import QUANTIZATION, QuantizationOptions
from detection_core.artifacts.tflite_metadata import (
    DECODING,
    BoxDecoding,
    read_decoding,
    read_description,
)
from detection_core.artifacts.tflite_provenance import read_provenance
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import load_detector, write_detector
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.quantization.rewriting import rewrite
from detection_core.tasks import export
from detection_core.tasks.compare_file import CompareOptions, compare_file
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting import export_networks
from detection_core.tasks.exporting.parity import TFLiteExportOptions, measure_parity
from tests.support.cases import refused
from tests.support.detectors import FORMATS as FORMATS_OF
from tests.support.detectors import examples, exported, quantized, trained
from tests.support.tflite_operations import list_operations

pytestmark = pytest.mark.slow

_EXPORT_ALL = """
import sys
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting.parity import TFLiteExportOptions
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
float_dir, aware_dir, examples, output = sys.argv[1:]
options = TFLiteExportOptions(
    max_map_drop=2.0, formats=tuple(FORMATS), latency_runs=0, representative_examples=4
)
folders = {"tflite_dir": output + "/tflite", "parity_dir": output + "/parity"}
export_tflite(float_dir, examples, options, quantized_model_dir=aware_dir, **folders)
saved = SavedModelOptions(frozen_graph=True)
export_saved_model(float_dir, output + "/saved", saved, examples_dir=examples)
"""


def options(formats: tuple[str, ...], **changes: Any) -> TFLiteExportOptions:
    given = {
        "max_map_drop": 2.0,
        "representative_examples": 2,
        "latency_runs": 0,
        "headless": False,
    } | changes
    return TFLiteExportOptions(formats=formats, **given | changes)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def exporting(root):
    """Exports the plain detector to folders under a name."""

    def run(name: str, options: TFLiteExportOptions, *, quantized: Path | None = None) -> ParityReport:
        places = {f"{each}_dir": str(root / name / each) for each in ("tflite", "parity")}
        places["quantized_model_dir"] = str(quantized or "")
        return export_tflite(str(trained("plain") / "model"), str(examples()), options, **places)

    return run


@pytest.fixture(scope="module")
def side_by_side(exporting):
    """As after a long measurement: what nothing refers to is gone when layers are compared."""

    def after_collection(*arguments: Any) -> ParityReport:
        gc.collect()
        return measure_parity(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "measure_parity", after_collection)
        formats = options(("int8_post_training", "int8"), latency_runs=1)
        return exporting("side", formats, quantized=quantized("plain") / "model")


def test_the_report_is_an_artifact_and_files_compared_again_are_as_the_gate_saw_them(root, side_by_side):
    assert PARITY.read(str(root / "side" / "parity")) == side_by_side
    saved = json.loads((root / "side" / "parity" / "parity.json").read_text())
    assert (saved["split"], saved["images"]) == ("eval", 6)
    for file in saved["files"]:
        assert file["size_bytes"] == (root / "side" / "tflite" / file["file"]).stat().st_size
        assert set(file["latency_ms"]) == {"1", "2"} and min(file["latency_ms"].values()) > 0
        # Each against the network that it was made from, which is the quantized one for int8.
        network = file["network"]
        assert set(network["heads"]) == {"box_codes", "class_logits"} and network["images"] == 4
        assert min(network["heads"].values()) > network["least_db"]
        assert file["boxes"]["matched"] <= 1 and "apart" not in file
    assert saved["blessed"] is side_by_side.blessed and len(saved["reasons"]) == 2
    path, aware = str(root / "side" / "tflite" / "model_int8.tflite"), str(quantized("plain") / "model")
    found = compare_file(path, str(trained("plain") / "model"), str(examples()), quantized_model_dir=aware)
    assert found == side_by_side.files[1].network and len(found.layers) > 20 and len(found.heads) == 2


def test_quantized_after_training_and_aware_stand_side_by_side(root, side_by_side):
    found = [(file.format, file.file, file.quantization, file.made_from) for file in side_by_side.files]
    assert found == [
        ("int8_post_training", "model_int8_post_training.tflite", "post_training", "float"),
        ("int8", "model_int8.tflite", "aware", "quantization_aware"),
    ]
    for _, name, quantization, made_from in found:
        content = (root / "side" / "tflite" / name).read_bytes()
        origin = read_provenance(content)
        assert (origin.quantization, origin.made_from) == (quantization, made_from)
        assert {op.outputs for op in list_operations(content) if op.name == "CONV_2D"} == {("int8",)}


def test_what_cannot_be_made_is_refused_before_anything_is_written(root, exporting):
    shutil.copytree(quantized("plain") / "model", root / "four")
    path = root / "four" / layout.SERVING / layout.EXTRA / layout.QUANTIZATION
    record = json.loads(path.read_text())
    record["settings"]["weight_bits"] = 4
    path.write_text(json.dumps(record))
    with pytest.raises(ExportError, match=r"weight_bits: expected 8, as int8 has, found 4; quantize with"):
        exporting("nothing", options(("int8",)), quantized=root / "four")
    with pytest.raises(ExportError, match=r"formats: expected formats of the float network, .* found int4_w"):
        exporting("nothing", options(("float32", "int4_weights_aware")))
    assert not (root / "nothing").exists()


@pytest.fixture(scope="module")
def four_bits(root):
    """Folder of a detector with weights of 4 bits that training has moved away from the float detector's."""
    float_detector = load_detector(str(trained("plain") / "model"))
    rewritten = rewrite(float_detector.model, QuantizationOptions(delay=0, weight_bits=4))
    rewritten.calibrate([np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32)])
    rng = np.random.default_rng(5)
    for weight in rewritten.aware.network.trainable_weights:
        weight.assign(weight * rng.uniform(0.9, 1.1, weight.shape))
    texts = {layout.QUANTIZATION: QUANTIZATION.format(rewritten.describe())}
    folder, labels = root / "four_bits", float_detector.label_map
    write_detector(rewritten.model, float_detector.config, labels, str(folder), kind="quantized", texts=texts)
    return folder


def test_weights_of_four_bits_that_were_trained_so_are_those_of_the_file(root, exporting, four_bits):
    formats = options(("int4_weights_aware", "int4_weights"), max_map_drop=-2.0)
    both = exporting("both", formats, quantized=four_bits)
    # A missed bound is a verdict, not an error.
    assert not both.blessed and "more than -2.0000" in both.reasons[0]
    aware, after = both.files
    assert (aware.made_from, aware.quantization) == ("quantization_aware", "post_training")
    assert (after.made_from, after.quantization) == ("float", "post_training")
    # Against the networks that they are made from: one is on the grid of the file already.
    assert min(aware.network.heads.values()) > 35 and max(after.network.heads.values()) < 30
    origin = read_provenance((root / "both" / "tflite" / aware.file).read_bytes())
    assert (origin.format, origin.made_from) == ("int4_weights_aware", "quantization_aware")


@pytest.mark.zoo
def test_every_format_is_made_of_trained_weights(exporting, four_bits):
    formats = ("float16_aware", "dynamic_range_aware", "int16x8_aware", "int8_weights_aware")
    report = exporting("every", options(formats), quantized=four_bits)
    for file in report.files:
        assert file.made_from == "quantization_aware"
        assert min(file.network.heads.values()) >= file.network.least_db
    assert [file.quantization for file in report.files] == ["none", *["post_training"] * 3]


def test_layers_stay_in_float_until_the_budget_is_met_and_the_file_names_them(root, exporting, monkeypatch):
    # Float, integers, one layer in float, two of them: the second wins back all that was lost.
    scores = iter([0.9, 0.5, 0.5, 0.9])
    monkeypatch.setattr(
        export_networks,
        "coco_metrics_of",
        lambda models, *_, **__: {name: {MAP_50: next(scores)} for name in models},
    )
    (file,) = exporting("mixed", options(("int8_mixed",), max_map_drop=0.1)).files
    assert file.quantization == "post_training"
    path = root / "mixed" / "tflite" / "model_int8_mixed.tflite"
    assert len(read_provenance(path.read_bytes()).float_layers) >= 2
    operations = list_operations(path.read_bytes())
    kinds = {op.outputs for op in operations if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D")}
    assert kinds == {("int8",), ("float32",)}
    again = CompareOptions(representative_examples=2)
    assert compare_file(str(path), str(trained("plain") / "model"), str(examples()), again) == file.network


def test_options_that_mean_nothing_are_refused():
    known = ", ".join(FORMATS)
    for formats, found in ((("float32", "int4"), "int4"), ((), "none")):
        refused(ConfigError, f"formats: expected some of {known}, found {found}", options, formats)
    for name in ("max_detections", "representative_examples"):
        refused(ConfigError, f"{name}: expected at least 1, found 0", options, ("float32",), **{name: 0})
    with pytest.raises(ConfigError, match=r"form: expected one of post_process, .*, found none"):
        options(("float32",), form="none")


def plain(decoding: BoxDecoding) -> BoxDecoding:
    """Return what the file itself has of it: float32 anchors, and the normalisation elsewhere."""
    anchors = np.array(decoding.anchors, np.float32).tolist()
    return dataclasses.replace(decoding, anchors=anchors, mean=(), std=())


@pytest.mark.parametrize("family", ["ssd", "efficientdet"])
def test_every_file_says_what_it_takes_where_it_comes_from_and_how_good_it_is(family):
    folder = exported(family) / "tflite"
    names = [f"model_{name}{form}.tflite" for name in FORMATS_OF[family] for form in ("", "_headless")]
    assert {path.name for path in folder.iterdir()} == {"labels.txt", "decoding.json", *names}
    assert (folder / "labels.txt").read_text() == "dark\nbright\n"
    reports = PARITY.read(str(exported(family) / "parity")).files
    assert [file.file for file in reports] == names
    decoding = DECODING.read(str(folder))
    for file, whole in zip(reports, itertools.chain(*([one, one] for one in reports[::2])), strict=True):
        content = (folder / file.file).read_bytes()
        # Without post-processing a consumer that follows decoding.json finds the same boxes.
        assert file.metrics == pytest.approx(whole.metrics, abs=1e-3) and file.boxes == whole.boxes
        assert read_decoding(content) == (None if file is whole else plain(decoding))
        origin = read_provenance(content)
        assert origin.written_by.startswith("detflow ") and origin.split == "eval"
        assert (origin.format, origin.quantization) == (file.format, file.quantization)
        assert origin.made_from == file.made_from and set(origin.metrics) == set(file.metrics)
        for name, value in file.metrics.items():
            assert origin.metrics[name] == (None if value < 0 else round(value, 4))
        described = read_description(content)
        assert described.labels == ("dark", "bright")
        assert described.std == pytest.approx((127.5 if family == "ssd" else 128.0,) * 3)
        assert described.score_threshold == pytest.approx(file.score_threshold, rel=1e-6)
        assert (file.score_threshold > 0) == (file.metrics[MAP_50] > 0)
        assert file.network.images and min(file.network.heads.values()) > file.network.least_db
        # After few steps a class head gives nearly the same everywhere, and little noise is much beside that.
        apart = {""} if file.format == "float32" else {"", "class_head_pointwise_level_0"}
        assert file.network.layer in apart, (file.format, file.network.layer, file.network.layer_db)


@pytest.mark.parametrize(("family", "additions"), [("ssd", 10), ("efficientdet", 5)])
def test_all_of_a_real_network_runs_in_int8(family, additions):
    """Backbone, pyramid and heads: no convolution, sum or resize of the file is in float."""
    operations = list_operations((exported(family) / "tflite" / "model_int8.tflite").read_bytes())
    counts = Counter(op.name for op in operations)
    assert counts["CONV_2D"] > 40 and counts["DEPTHWISE_CONV_2D"] > 20 and counts["ADD"] > additions
    for op in operations:
        if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            assert op.inputs == ("int8", "int8", "int32") and op.outputs == ("int8",), op
    before = operations[: [op.name for op in operations].index("TFLite_Detection_PostProcess")]
    floats = {op.name for op in before if "float32" in (*op.inputs, *op.outputs)}
    # EfficientDet's scores get the background's column in float.
    assert floats == {"DEQUANTIZE", "MUL", "LOGISTIC"} | ({"PAD"} if family == "efficientdet" else set())
    assert (counts["QUANTIZE"], counts["DEQUANTIZE"]) == (1, 2)


def test_the_float_file_finds_what_the_saved_model_finds():
    image = np.random.default_rng(3).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    served = load_runner(str(trained("ssd") / "model"))(image)
    file = load_runner(str(exported("ssd") / "tflite" / "model_float32.tflite"))(image)
    # The SavedModel suppresses class by class, the file across classes: the best detection is the same.
    np.testing.assert_allclose(file.scores[0], served.scores[0], atol=1e-5)
    np.testing.assert_allclose(file.boxes[0], served.boxes[0], atol=1e-5)
    assert file.classes[0] == served.classes[0]
    sizes = {file.name: file.size_bytes for file in PARITY.read(str(exported("ssd") / "parity")).files}
    assert sizes["int8"] < 0.6 * sizes["float32"]


@pytest.mark.zoo
@pytest.mark.timeout(3600)
def test_two_processes_write_the_same_files(tmp_path):
    """All that is exported of a detector folder, and what the gate says of it."""
    outputs = [tmp_path / f"process_{seed}" for seed in (1, 2)]
    given = [str(trained("ssd") / "model"), str(quantized("ssd") / "model"), str(examples())]
    running = []
    for output in outputs:
        command = [sys.executable, "-c", _EXPORT_ALL, *given, str(output)]
        seeded = {**os.environ, "PYTHONHASHSEED": output.name[-1]}
        running.append(subprocess.Popen(command, env=seeded))
    try:
        assert [process.wait() for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    written = [{str(p.relative_to(o)): p for p in o.rglob("*") if p.is_file()} for o in outputs]
    assert written[0].keys() == written[1].keys() and len(written[0]) > len(FORMATS) + 10
    first, second = ({name: path.read_bytes() for name, path in files.items()} for files in written)
    assert [name for name in first if first[name] != second[name]] == []
