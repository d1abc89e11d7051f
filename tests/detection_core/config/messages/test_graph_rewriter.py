from detection_core.config.messages.graph_rewriter import AWARE, FORMATS_OF_8_BITS, format_problems
from detection_core.exporters.tflite_formats import FORMATS, Network
from detection_core.protos.graph_rewriter_pb2 import Quantization
from tests.support.cases import cases
from tests.support.configs import PYRAMID, assert_each_refused, assert_fine

QUANTIZATION = "graph_rewriter.quantization"
WEIGHTS, ACTIVATIONS = f"{QUANTIZATION}.weight_bits", f"{QUANTIZATION}.activation_bits"


def test_bits_and_names_are_those_that_files_have():
    assert_each_refused(PYRAMID, {WEIGHTS: 5, ACTIVATIONS: 4, f"{QUANTIZATION}.delay": -1})
    assert_fine(PYRAMID, {WEIGHTS: 4, ACTIVATIONS: 16})
    of_aware, integer = (Network.STRIPPED, Network.AWARE_MIXED), (Network.AWARE, Network.AWARE_MIXED)
    assert all((form.network in of_aware) == name.endswith(AWARE) for name, form in FORMATS.items())
    assert {n for n, f in FORMATS.items() if f.network in integer} == set(FORMATS_OF_8_BITS)


@cases(
    (None, ("float32", "int8", "int4_weights"), []),
    (None, ("float32", "int4_weights_aware"), ["formats"]),
    (Quantization(), tuple(FORMATS), []),
    (Quantization(weight_bits=4), ("int4_weights_aware", "int8_post_training", "int8_mixed"), []),
    (Quantization(weight_bits=4), ("float32", "int8"), [WEIGHTS]),
    (Quantization(weight_bits=4, activation_bits=16), ("int8_mixed_aware",), [WEIGHTS, ACTIVATIONS]),
)
def test_files_that_cannot_be_made_are_found(*, message, formats, paths):
    assert [problem.path for problem in format_problems(message, formats)] == paths
