import numpy as np
import pytest
import tensorflow as tf
import yaml

from detection_core.allowed_values import OPERATION
from detection_core.artifacts.flatbuffer_table import read_root, tables
from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_file import read_graph
from detection_core.builders.detector import configured_model
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.errors import ModelError
from detection_core.exporters.operator_times import operator_times, xnnpack_delegation
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.optional.accelerators.accelerator_lint import (
    CONDITIONS,
    TABLE,
    families,
    lint,
    partitions,
)
from tests.support.cases import cases
from tests.support.edge_files import converted, convolutions, sliced, strided, upsampling
from tests.support.tiny_files import file_of, float_file, integer_file


def test_every_row_has_a_public_source_known_conditions_and_operations_of_tensorflow_lite():
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    with open(TABLE, encoding="utf-8") as file:
        table = yaml.safe_load(file)
    living = ["gpu", "qualcomm", "mediatek", "edgetpu", "ethosu", "xnnpack"]
    assert set(families()) == {*living, "nnapi", "hexagon", "npu", "all"}
    assert families()["npu"] == ["qualcomm", "mediatek"] and families()["all"] == living
    assert families()["nnapi"] == ["nnapi"] and lint(float_file(), "nnapi").dead
    assert table["conditions"].keys() == CONDITIONS.keys()
    for name, family in table["families"].items():
        operators = [operator for row in family["rows"] for operator in row["operators"]]
        assert len(operators) == len(set(operators)), name
        assert [operator for operator in operators if not hasattr(BuiltinOperator, operator)] == []
        for row in family["rows"]:
            assert table["sources"][row["source"]].startswith("https://")
            assert set(row.get("conditions", {})) <= set(CONDITIONS)
        assert table["sources"][family["note_source"]].startswith("https://")


@pytest.mark.zoo
@pytest.mark.parametrize(
    "name",
    [f"ssd_mobilenet_{name}_coco17_tpu-8" for name in ("v2_320x320", "v2_fpnlite_320x320", "v1_fpn_640x640")]
    + ["efficientdet-lite0"],
)
def test_an_integer_detector_of_each_family_is_one_part(name):
    """EfficientDet-Lite has kernels of 5 x 5, which Hexagon's delegate does not take."""
    from tests.mediapipe.test_object_detector import detector, pictures

    model, config = detector(name)
    family = configured_model(config).family
    rewritten = family.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    rewritten.calibrate([tf.constant(pictures().astype(np.float32))])
    outputs = TFLiteOutputOptions(max_detections=10, classes_per_detection=1, use_regular_nms=False)
    function = family.require_tflite().function(rewritten.model, config, outputs, True)
    content = FORMATS["int8"].convert(Conversion(function=function))
    for accelerator in (*families()["all"], "nnapi", "hexagon"):
        found = lint(content, accelerator)
        if accelerator == "gpu":  # refuses the post-processing
            continue
        staying = {ending.name for ending in found.endings if ending.before_post_processing}
        if accelerator == "hexagon" and name.startswith("efficientdet"):
            assert "DEPTHWISE_CONV_2D" in staying
            continue
        assert found.one_part, (accelerator, found.parts)
        assert staying <= {"QUANTIZE", "DEQUANTIZE", "MUL", "LOGISTIC", "PAD"}, accelerator
    assert len(xnnpack_delegation(content).partitions) == 1


def test_parts_are_those_of_litert_and_what_an_accelerator_refuses_is_told_with_what_to_do():
    contents = [upsampling(6, 10), upsampling(6, 10, integer=False)]
    for between in ("", "reverse", "concat5", "concat6"):
        contents += [convolutions(between=between, integer=integer) for integer in (False, True)]
    for content in contents:
        expected = [len(part) for part in xnnpack_delegation(content).partitions]
        found = lint(content, "xnnpack")
        assert list(found.parts) == expected and found.one_part == (len(expected) == 1)
    for content in (float_file(), integer_file()):
        graph, delegation = read_graph(content), xnnpack_delegation(content)
        taken = {index for part in delegation.partitions for index in part}
        assert sorted(map(sorted, partitions(graph, taken))) == sorted(map(list, delegation.partitions))
    for family in (*families()["all"][1:], "nnapi", "hexagon"):
        found = lint(integer_file(), family)
        assert found.one_part and sum(found.parts) >= found.operations - 5, family
        staying = {ending.name for ending in found.endings if ending.before_post_processing}
        # Pixels become int8 before the part, scores and codes become floats behind it.
        assert staying <= {"QUANTIZE", "DEQUANTIZE", "MUL", "LOGISTIC"}, family
        assert all(ending.remedy for ending in found.endings if ending.before_post_processing)
        (post,) = [ending for ending in found.endings if ending.name == OPERATION]
        assert not post.before_post_processing and post.remedy
    found = lint(upsampling(6, 10, half_pixel=True), "edgetpu")
    names = [op.name for op in read_graph(upsampling(6, 10, half_pixel=True)).operators]
    before = names.index("RESIZE_NEAREST_NEIGHBOR")
    assert sum(found.parts) < before + 1 and len(found.parts) <= 1
    (ending,) = [e for e in found.endings if e.name == "RESIZE_NEAREST_NEIGHBOR"]
    assert "version 2 at most wanted, 3 found" in ending.reason and "edgetpu/issues/187" in ending.source
    assert "copies" in ending.remedy
    for family in ("edgetpu", "hexagon", "ethosu"):
        found = lint(convolutions(), family)
        assert found.parts == () and not found.one_part
        (ending,) = found.endings
        assert (ending.name, ending.count) == ("CONV_2D", 2) and "float32 found" in ending.reason
        assert "export int8" in ending.remedy


@cases("float32", "float16", "int8", "dynamic_range")
def test_a_gpu_refuses_post_processing_and_takes_the_file_without_it_whole(*, name):
    for form, reasons in {"post_process": [OPERATION], "plain_nms": ["NON_MAX_SUPPRESSION_V4"]}.items():
        found = lint(file_of(name, form), "gpu")
        assert not found.one_part and set(reasons) <= {ending.name for ending in found.endings}
        remedies = [ending.remedy for ending in found.endings if ending.name in reasons]
        assert all("_headless.tflite" in remedy for remedy in remedies)
    for family in ("gpu", *families()["npu"]):
        found = lint(file_of(name, "headless"), family)
        assert found.one_part and found.endings == () and found.parts == (found.operations,), family
    assert lint(float_file(), "qualcomm").one_part, "an NPU leaves the end to the processor"


def test_a_search_behind_the_network_is_post_processing():
    kernel = tf.random.stateless_uniform([3, 3, 3, 4], [1, 2], -0.5, 0.5)

    def serve(image):
        found = tf.math.top_k(tf.reshape(tf.nn.conv2d(image, kernel, 1, "SAME"), [1, -1]), 5)
        return found.values, found.indices // 4

    content = converted(serve, [1, 8, 8, 3], [[tf.random.stateless_normal([1, 8, 8, 3], [1, 0])]])
    names = [op.name for op in read_graph(content).operators]
    assert names == ["QUANTIZE", "CONV_2D", "RESHAPE", "TOPK_V2", "DEQUANTIZE", "FLOOR_DIV"]
    found = lint(content, "nnapi")
    assert found.parts == (3,) and found.operations == 3
    assert not any(ending.before_post_processing for ending in found.endings)


@cases(
    ("edgetpu", lambda: sliced(2), ["steps of 1 wanted, another found"]),
    ("nnapi", lambda: sliced(2), []),
    ("hexagon", lambda: sliced(2), []),
    ("ethosu", lambda: sliced(2), ["steps of 1 wanted, another found"]),
    ("xnnpack", lambda: sliced(2), ["float32 wanted, int8 found"]),
    ("hexagon", lambda: strided(1, 3), []),
    ("hexagon", lambda: strided(1, 5), ["kernels of 3 x 3 wanted, 5 found"]),
    ("hexagon", lambda: strided(4, 3), ["strides of 3 at most wanted, 4 found"]),
    ("ethosu", lambda: strided(2, 5), []),
    ("ethosu", lambda: strided(4, 3), ["strides of 3 at most wanted, 4 found"]),
    ("edgetpu", lambda: strided(2, 5), []),
    ("gpu", lambda: sliced(2), []),
)
def test_steps_kernels_and_strides_count_where_a_document_says_so(*, family, make, reasons):
    operations = {op.name for op in read_graph(make()).operators} & {"STRIDED_SLICE", "DEPTHWISE_CONV_2D"}
    endings = lint(make(), family).endings
    assert operations and [each.reason for each in endings if each.name in operations] == reasons


def _damaged(slot, content):
    """Return a file whose convolution has an offset beyond the end in a slot; slot 4 has its options."""
    from ai_edge_litert.schema_py_generated import Model

    names = [operator.name for operator in read_graph(content).operators]
    operators = tables(tables(read_root(Model, content), "Subgraphs")[0], "Operators")
    place = operators[names.index("CONV_2D")]._tab.place(slot)
    return content[:place] + (2**31 - 1).to_bytes(4, "little") + content[place + 4 :]


@pytest.mark.parametrize("slot", [1, 4], ids=["inputs", "options"])
def test_a_damaged_operation_is_refused_by_every_reader_of_options(slot):
    content = _damaged(slot, bytes(integer_file()))
    for read in (lambda: lint(content, "edgetpu", where="x.tflite"), lambda: _times(content)):
        with pytest.raises(ModelError, match="found a damaged one") as caught:
            read()
        assert caught.value.where == "x.tflite"


def _times(content):
    return operator_times(content, threads=1, delegate="none", runs=1, where="x.tflite")
