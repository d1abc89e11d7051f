"""Detectors with every kind of layer that a precision below float32 could spoil, and a batch for each."""

from typing import Any

import tensorflow as tf

from detection_core.detectors.base import Detector
from tests.support.plain_backbone import PLAIN, PLAIN_BIFPN
from tests.support.tiny_model import make_dataset
from tests.support.tiny_training import config_text

_AUTOML = """
model {
  efficientdet {
    name: "efficientdet-lite0" num_classes: 2 fpn_cell_repeats: 1 box_class_repeats: 1 fpn_num_filters: 8
    survival_prob: 0 image_resizer { automl_resizer { height: 128 width: 128 } } MORE
  }
}
"""


def _bidirectional(backbone: str) -> str:
    text = config_text(backbone=backbone).replace("max_level: 5 anchor_scale", "max_level: 7 anchor_scale")
    return text.replace(
        "fpn { min_level: 3 max_level: 5 additional_layer_depth: 8 }",
        "bifpn { num_filters: 8 num_iterations: 1 }",
    )


MODELS = {
    "ssd": config_text(),
    "ssd, bidirectional pyramid": _bidirectional("ssd_efficientnet-b0_bifpn_keras").replace(
        "use_depthwise: true depth_multiplier: 0.25 min_depth: 8", ""
    ),
    "efficientdet, plain sums": _AUTOML.replace("MORE", ""),
    "efficientdet, weighted, two heads": _AUTOML.replace(
        "MORE",
        'fpn_weight_method: "fastattn" act_type: "srelu" heads: "object_detection" heads: "segmentation"'
        " seg_num_classes: 3",
    ),
    "plain": config_text(backbone=PLAIN),
    "plain, bidirectional pyramid": _bidirectional(PLAIN_BIFPN),
}


def batch_for(model: Detector) -> Any:
    """Two noisy images with an object each, and its mask."""
    height, width = model.input_shape.smallest
    (batch,) = make_dataset(0, batch_size=2).take(1)
    sizes = tf.fill([2, 2], height)
    pixels = tf.random.stateless_uniform([2, height, width, 3], [1, 2], 0.0, 255.0)
    images = batch.images._replace(pixels=pixels, true_sizes=sizes, original_sizes=sizes)
    masks = tf.ones([2, 1, height, width], tf.uint8)
    return batch._replace(images=images, truth=batch.truth._replace(masks=masks))
