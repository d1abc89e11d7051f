"""Rules of quantization."""

from detection_core.config.messages.graph_rewriter import AWARE, FORMATS_OF_8_BITS, format_problems
from detection_core.exporters.tflite_formats import FORMATS, Network
from detection_core.protos.graph_rewriter_pb2 import Quantization
from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_each_refused, assert_fine

QUANTIZATION = "graph_rewriter.quantization"


def test_bits_and_names_are_those_that_files_have():
    wrong = {"weight_bits": 5, "activation_bits": 4, "delay": -1}
    assert_each_refused(PYRAMID, {f"{QUANTIZATION}.{field}": value for field, value in wrong.items()})
    assert_fine(PYRAMID, {f"{QUANTIZATION}.weight_bits": 4, f"{QUANTIZATION}.activation_bits": 16})
    of_aware = (Network.STRIPPED, Network.AWARE_MIXED)
    assert {n for n, f in FORMATS.items() if f.network in of_aware} == {
        n for n in FORMATS if n.endswith(AWARE)
    }
    integer = (Network.AWARE, Network.AWARE_MIXED)
    assert {n for n, f in FORMATS.items() if f.network in integer} == set(FORMATS_OF_8_BITS)


@cases(
    (None, ("float32", "int8", "int4_weights"), []),
    (None, ("float32", "int4_weights_aware"), ["formats"]),
    (Quantization(), tuple(FORMATS), []),
    (Quantization(weight_bits=4), ("int4_weights_aware", "int8_post_training", "int8_mixed"), []),
    (Quantization(weight_bits=4), ("float32", "int8"), ["graph_rewriter.quantization.weight_bits"]),
    (
        Quantization(weight_bits=4, activation_bits=16),
        ("int8_mixed_aware",),
        ["graph_rewriter.quantization.weight_bits", "graph_rewriter.quantization.activation_bits"],
    ),
)
def test_files_that_cannot_be_made_are_found(*, message, formats, paths):
    assert [problem.path for problem in format_problems(message, formats)] == paths
