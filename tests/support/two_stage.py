"""A two-stage detector of a few convolutions: its config, its backbone, and made-up batches."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, Extractor
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.network import BACKBONES, TwoStageBackbone
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from tests.support.tiny_training import config_text

EXTRACTOR = "faster_rcnn_tests"
HEAD = """
second_stage_box_predictor {
  mask_rcnn_box_predictor {
    fc_hyperparams { op: FC initializer { variance_scaling_initializer { } } }
    predict_instance_masks: MASKS mask_height: 7 mask_width: 5 mask_prediction_conv_depth: 4
    conv_hyperparams { initializer { variance_scaling_initializer { } } }
  }
}
"""
MODEL = f"""
faster_rcnn {{
  number_of_stages: STAGES
  num_classes: 2
  image_resizer {{ RESIZER }}
  feature_extractor {{ type: "{EXTRACTOR}" batch_norm_trainable: true }}
  first_stage_anchor_generator {{
    grid_anchor_generator {{ scales: [0.06, 0.11] aspect_ratios: [1.0] height_stride: 16 width_stride: 16 }}
  }}
  first_stage_box_predictor_conv_hyperparams {{
    regularizer {{ l2_regularizer {{ weight: 0.001 }} }}
    initializer {{ truncated_normal_initializer {{ stddev: 0.1 }} }}
  }}
  first_stage_box_predictor_depth: 8
  first_stage_minibatch_size: 16
  first_stage_max_proposals: 12
  second_stage_batch_size: 8
  initial_crop_size: 4 maxpool_kernel_size: 2 maxpool_stride: 2
  {HEAD}
  second_stage_post_processing {{
    batch_non_max_suppression {{ max_detections_per_class: 5 max_total_detections: 6 }}
    score_converter: SOFTMAX
  }}
  clip_anchors_to_image: true
  FURTHER
}}
"""
FIXED = "fixed_shape_resizer { height: 64 width: 64 }"
KEEPING = "keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 96 }"
PADDED = "keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true }"


def _proposal_features(images: Any, layers: Any, stride: int) -> Any:
    features = images
    for level in range(1, 5):
        name = f"backbone_conv_{level}"
        features = layers.norm_activation(layers.conv(name, 8, 3, stride=2, use_bias=False)(features), name)
    return features


def _region_features(regions: Any, layers: Any) -> Any:
    return layers.norm_activation(
        layers.conv("backbone_conv_5", 8, 3, use_bias=False)(regions), "backbone_conv_5"
    )


@contextlib.contextmanager
def tiny_extractor() -> Iterator[str]:
    """Add a backbone of five convolutions to the extractors of the family."""
    EXTRACTORS[EXTRACTOR] = Extractor(backbone=EXTRACTOR)
    BACKBONES[EXTRACTOR] = TwoStageBackbone(
        family="tests",
        preprocessing="unit_range",
        hyperparams=LayerHyperparams(batch_norm=BatchNormOptions(momentum=0.9)),
        proposal_features=_proposal_features,
        region_features=_region_features,
    )
    try:
        yield EXTRACTOR
    finally:
        EXTRACTORS.pop(EXTRACTOR, None)
        BACKBONES.pop(EXTRACTOR, None)


def model_text(stages: int = 2, resizer: str = FIXED, further: str = "") -> str:
    """Return the `model` section; `further` fields come last."""
    text = MODEL.replace("STAGES", str(stages)).replace("RESIZER", resizer).replace("FURTHER", further)
    return f"model {{ {text.replace('MASKS', str(stages == 3).lower())} }}"


def two_stage_config(stages: int = 2, resizer: str = FIXED, further: str = "", steps: int = 3) -> str:
    """Return a whole config; with three stages its readers read masks."""
    text = config_text(steps)
    masks = "load_instance_masks: true mask_type: PNG_MASKS" if stages == 3 else ""
    readers = f"train_input_reader {{ {masks} }} eval_input_reader {{ {masks} }}"
    return f"{model_text(stages, resizer, further)} {text[text.index('train_config {') :]} {readers}"


def build(stages: int = 2, resizer: str = FIXED, further: str = "") -> FasterRcnnModel:
    """Build the detector with random weights."""
    found = build_detector(parse_pipeline_config(model_text(stages, resizer, further)).model)
    assert isinstance(found, FasterRcnnModel)
    return found


def masks_of(boxes: Any, height: int, width: int) -> tf.Tensor:
    """Fill each box, uint8 [B, G, height, width]."""
    masks = np.zeros((*np.shape(boxes)[:2], height, width), np.uint8)
    for place in np.ndindex(*masks.shape[:2]):
        rows, columns = np.array(boxes[place]).reshape(2, 2).T * [[height], [width]]
        masks[place][int(rows[0]) : int(rows[1]), int(columns[0]) : int(columns[1])] = 1
    return tf.constant(masks)


def checkered_masks(boxes: Any, height: int, width: int) -> tf.Tensor:
    """Fill squares of 8 pixels in each box like a chessboard, uint8 [B, G, height, width]."""
    y, x = np.mgrid[:height, :width]
    edges = np.asarray(boxes, np.float64)[..., np.newaxis, np.newaxis] * [
        [[height]], [[width]], [[height]], [[width]]
    ]  # fmt: skip
    top, left, bottom, right = np.moveaxis(edges, 2, 0)
    inside = (y >= top) & (y < bottom) & (x >= left) & (x < right)
    return tf.constant((inside & ((x // 8 + y // 8) % 2 == 0)).astype(np.uint8))
