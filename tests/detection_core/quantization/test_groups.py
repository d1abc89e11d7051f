"""Parts of a network."""

import tf_keras

from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.graph import read_graph
from detection_core.quantization.groups import OTHER, layer_groups
from tests.support.cases import cases
from tests.support.small_detectors import small_detector
from tests.support.tiny_network import tiny_network


@cases(
    (
        "ssd",
        {
            "backbone_stem": "backbone, stride 2",
            "backbone_block_3_expand": "backbone, stride 4",
            "backbone_block_3_project": "backbone, stride 8",
            "backbone_head_act": "backbone, stride 32",
            "fpn_lateral_5": "feature network",
            "class_logits": "class head",
            "box_head_depthwise_level_0": "box head",
        },
    ),
    (
        "efficientdet",
        {
            "backbone_stem": "backbone, stride 2",
            "backbone_block_6_0_project": "backbone, stride 32",
            "class_logits": "class head",
            "box_codes": "box head",
        },
    ),
)
def test_every_layer_of_a_family_is_in_a_part(*, family, expected):
    network = fold_batch_norms(small_detector(family).network, pairwise_sums=True).network
    groups = layer_groups(read_graph(network))
    assert {name: groups[name] for name in expected} == expected
    assert set(groups) == {layer.name for layer in network.layers} - {"image"}
    strides = {f"backbone, stride {2**power}" for power in range(1, 6)}
    assert set(groups.values()) == strides | {"feature network", "class head", "box head"}


def test_pooled_values_are_in_the_stage_of_their_map_and_other_names_are_a_part_too():
    pixels = tf_keras.Input((32, 32, 3), name="image")
    x = tf_keras.layers.Conv2D(4, 3, strides=4, padding="same", name="backbone_stem")(pixels)
    gate = tf_keras.layers.GlobalAveragePooling2D(keepdims=True, name="backbone_squeeze")(x)
    gate = tf_keras.layers.Conv2D(4, 1, name="backbone_gate")(gate)
    x = tf_keras.layers.Multiply(name="backbone_excite")([x, gate])
    assert set(layer_groups(read_graph(tf_keras.Model(pixels, x))).values()) == {"backbone, stride 4"}
    groups = layer_groups(read_graph(fold_batch_norms(tiny_network()).network))
    assert groups["stem"] == OTHER and groups["tower_level_0"] == "shared head"
