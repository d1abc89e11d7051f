from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_file import network_operators, read_graph
from detection_core.exporters.operator_times import xnnpack_delegation
from detection_core.exporters.tflite import Conversion, to_int8
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers
from detection_core.families.efficientdet.check import WEIGHT_METHODS
from detection_core.families.efficientdet.network import FeatureNetwork
from detection_core.families.ssd.extractors import COMBINE_METHODS
from detection_core.families.ssd.tflite import tflite_function
from detection_core.parts.backbones import efficientnet
from detection_core.parts.heads import per_anchor
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks import BifpnOptions, WeightedFusion, bidirectional_pyramid
from detection_core.quantization.rewriting import rewrite
from tests.support import efficientdet_goldens as goldens
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import OPTIONS, PIXELS
from tests.support.tiny_network import CLASSES, randomise

pytestmark = pytest.mark.slow

QUICK = (
    ("efficientnet", "fast_attention"),  # SSD's, on a backbone with squeeze-and-excitation and swish
    ("ssd", "sum"),
    ("efficientdet", "fastattn"),
    ("efficientdet", "channel_attn"),
)
FORMS = [
    form if form in QUICK else pytest.param(*form, marks=pytest.mark.zoo)
    for form in (
        ("efficientnet", "fast_attention"),
        *(("ssd", name) for name in COMBINE_METHODS),
        *(("efficientdet", name) for name in WEIGHT_METHODS),
    )
]
# Integer kernels round a bit apart from fake quantization; a wrong scale gives less than 10.
LEAST_DB = 25.0


def pyramid(family: str, method: str, levels: Mapping[int, tf.Tensor]) -> list[tf.Tensor]:
    """The maps of levels 3 to 5 with nodes of two and of three inputs, the finest first."""
    layers = NetworkLayers(hyperparams=LayerHyperparams(activation="relu6"))
    if family != "efficientdet":
        fields = {"channels": 8, "iterations": 1, "min_level": 3, "max_level": 5, "backbone_max_level": 5}
        return bidirectional_pyramid(levels, layers, BifpnOptions(**fields, combine_method=method))
    fields = {"fpn_num_filters": 8, "fpn_cell_repeats": 1, "max_level": 5, "act_type": "relu6"}
    return FeatureNetwork(goldens.settings(**fields, fpn_weight_method=method), layers)(levels)


def backbone(family: str, pixels: tf.Tensor) -> dict[int, tf.Tensor]:
    """Maps of 8 x 8, 4 x 4 and 2 x 2 as levels 3 to 5."""
    if family == "efficientnet":
        layers = NetworkLayers(hyperparams=efficientnet.DEFAULT_HYPERPARAMS)
        options = efficientnet.EfficientNetOptions(version=0, max_level=2)
        levels = {3: efficientnet.efficientnet(pixels, layers, options).levels[2]}
        for level in (4, 5):
            levels[level] = tf_keras.layers.MaxPooling2D()(levels[level - 1])
        return levels
    features, levels = pixels, {}
    for level in (2, 3, 4, 5):
        name = f"backbone_{level}"
        features = tf_keras.layers.Conv2D(8, 3, 2, "same", activation="relu6", name=name)(features)
        levels[level] = features
    return {level: levels[level] for level in (3, 4, 5)}


def detector(family: str, method: str) -> TinyDetector:
    """A backbone, the pyramid, and heads on its maps of 8 x 8 and 4 x 4."""
    pixels = tf_keras.Input((32, 32, 3), name="pixels")
    maps = pyramid(family, method, backbone(family, pixels))
    sized = [each for each in maps if each.shape[1] in (8, 4)]
    heads = NetworkLayers(hyperparams=LayerHyperparams())
    box, classes = heads.conv("box", 2 * 4, 1), heads.conv("class", 2 * (CLASSES + 1), 1)
    outputs = [
        per_anchor([box(each) for each in sized], 4, "box_codes"),
        per_anchor([classes(each) for each in sized], CLASSES + 1, "class_logits"),
    ]
    network = tf_keras.Model(pixels, outputs, name="tiny_fusion")
    randomise(network, 0)
    rng = np.random.default_rng(1)
    for layer in network.layers:
        if isinstance(layer, WeightedFusion):  # shares as training gives them: neither alike nor 0
            layer.set_weights([rng.uniform(0.3, 1.5, weight.shape) for weight in layer.get_weights()])
    return TinyDetector(network)


@pytest.mark.parametrize(("family", "method"), FORMS)
def test_a_form_runs_in_integers_and_its_file_gives_what_the_quantized_network_gives(family, method):
    rewritten = rewrite(detector(family, method), QuantizationOptions(delay=0))
    rewritten.calibrate([tf.constant(PIXELS)])
    assert rewritten.float_layers() == []
    function = tflite_function(rewritten.model, OPTIONS, integer=True)
    content = to_int8(Conversion(function=function))
    graph = read_graph(content)
    inside = [graph.operators[position] for position in network_operators(graph)]
    delegation = xnnpack_delegation(content)
    left = [graph.operators[index].name for index in delegation.left]
    assert len(delegation.partitions) == 1 and left == ["QUANTIZE", "TFLite_Detection_PostProcess"]
    # No DEQUANTIZE in between either; what is behind the network reads its integers.
    assert {graph.tensors[index].dtype for operator in inside for index in operator.outputs} == {"int8"}
    assert "ADD" in {operator.name for operator in inside}
    with ReferenceNetwork(function) as reference:
        images = [pixels[np.newaxis].astype(np.uint8) for pixels in PIXELS]
        found = compare_layers(content, reference, images, LEAST_DB)
    assert found.unmatched == [] and min(found.heads.values()) > LEAST_DB, found.heads
