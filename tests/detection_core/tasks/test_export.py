"""A small real detector converted, run in LiteRT and judged."""

import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detection_core.artifacts import detector as layout
from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.parity import PARITY, ParityReport
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.tflite_provenance import read_provenance
from detection_core.detectors.quantization import QuantizationOptions
from detection_core.errors import ConfigError, ExportError
from detection_core.exporters.detector_folder import load_detector, write_detector
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.quantization.rewriting import rewrite
from detection_core.tasks import export
from detection_core.tasks.compare_file import CompareOptions, compare_file
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting import export_networks
from detection_core.tasks.exporting.parity import TFLiteExportOptions, measure_parity
from tests.support.cases import refused
from tests.support.detectors import examples, quantized, trained
from tests.support.tflite_operations import list_operations

Exporting = Callable[..., ParityReport]


def options(formats: tuple[str, ...], **changes: Any) -> TFLiteExportOptions:
    given = {"max_map_drop": 2.0, "representative_examples": 2, "latency_runs": 0} | changes
    return TFLiteExportOptions(formats=formats, **given)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def exporting(root):
    """Exports the plain detector to folders under a name."""

    def run(name: str, options: TFLiteExportOptions, *, quantized: Path | None = None) -> ParityReport:
        return export_tflite(
            str(trained("plain") / "model"),
            str(examples()),
            options,
            tflite_dir=str(root / name / "tflite"),
            parity_dir=str(root / name / "parity"),
            quantized_model_dir=str(quantized or ""),
        )

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


@pytest.mark.slow
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
