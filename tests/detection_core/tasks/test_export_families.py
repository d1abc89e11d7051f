"""What is exported of the stored detectors of real networks, and that it is the same in every process."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.parity import PARITY
from detection_core.artifacts.tflite_metadata import read_description
from detection_core.artifacts.tflite_provenance import read_provenance
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.tflite_formats import FORMATS as ALL_FORMATS
from tests.support.detectors import FORMATS, examples, exported, quantized, trained
from tests.support.tflite_operations import list_operations

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


@pytest.mark.parametrize("family", ["ssd", pytest.param("efficientdet", marks=pytest.mark.slow)])
def test_every_file_says_what_it_takes_where_it_comes_from_and_how_good_it_is(family):
    folder = exported(family) / "tflite"
    names = {"labels.txt", *(f"model_{name}.tflite" for name in FORMATS[family])}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "labels.txt").read_text() == "dark\nbright\n"
    for file in PARITY.read(str(exported(family) / "parity")).files:
        content = (folder / file.file).read_bytes()
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


@pytest.mark.parametrize(
    ("family", "additions"), [("ssd", 10), pytest.param("efficientdet", 5, marks=pytest.mark.slow)]
)
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
    sizes = {file.format: file.size_bytes for file in PARITY.read(str(exported("ssd") / "parity")).files}
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
    assert written[0].keys() == written[1].keys() and len(written[0]) > len(ALL_FORMATS) + 10
    first, second = ({name: path.read_bytes() for name, path in files.items()} for files in written)
    assert [name for name in first if first[name] != second[name]] == []
