"""A tiny detector config and drawn examples, for tests that really train."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

LABELS = "item { id: 1 name: 'dark' }\nitem { id: 2 name: 'bright' }\n"
CONFIG = """
model {
  ssd {
    num_classes: 2
    image_resizer { fixed_shape_resizer { height: 64 width: 64 } }
    feature_extractor {
      type: "BACKBONE" use_depthwise: true depth_multiplier: 0.25 min_depth: 8
      fpn { min_level: 3 max_level: 5 additional_layer_depth: 8 }
      override_base_feature_extractor_hyperparams: true
      conv_hyperparams {
        activation: RELU_6 regularizer { l2_regularizer { weight: 0.00004 } }
        initializer { variance_scaling_initializer { factor: 2.0 mode: FAN_IN } } batch_norm { decay: 0.9 }
      }
    }
    box_predictor {
      weight_shared_convolutional_box_predictor {
        depth: 8 num_layers_before_predictor: 1 kernel_size: 3 use_depthwise: true
        conv_hyperparams {
          activation: RELU_6 regularizer { l2_regularizer { weight: 0.00004 } }
          initializer { variance_scaling_initializer { factor: 2.0 mode: FAN_IN } } batch_norm { decay: 0.9 }
        }
      }
    }
    anchor_generator {
      multiscale_anchor_generator { min_level: 3 max_level: 5 anchor_scale: 3.0 aspect_ratios: [1.0] }
    }
    box_coder { faster_rcnn_box_coder { y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5 } }
    matcher {
      argmax_matcher { matched_threshold: 0.5 unmatched_threshold: 0.5 force_match_for_each_row: true }
    }
    similarity_calculator { iou_similarity { } }
    encode_background_as_zeros: true
    normalize_loss_by_num_matches: true
    loss {
      classification_loss { weighted_sigmoid_focal { } }
      localization_loss { weighted_smooth_l1 { } }
    }
    post_processing {
      batch_non_max_suppression { max_detections_per_class: 5 max_total_detections: 10 }
      score_converter: SIGMOID
    }
  }
}
train_config {
  batch_size: 2 num_steps: STEPS max_number_of_boxes: 5
  optimizer {
    momentum_optimizer {
      learning_rate {
        cosine_decay_learning_rate { learning_rate_base: 0.05 total_steps: STEPS warmup_steps: 0 }
      }
    }
    use_moving_average: false
  }
  data_augmentation_options { random_horizontal_flip { } }
}
"""


MOBILENET = "ssd_mobilenet_v2_fpn_keras"


def config_text(steps: int = 4, backbone: str = MOBILENET) -> str:
    """Give the config with a number of steps; `plain_backbone.PLAIN` trains in half the time."""
    return CONFIG.replace("STEPS", str(steps)).replace("BACKBONE", backbone)


def write_examples(folder: Path, images: int = 6, *, shapes: bool = False) -> Path:
    """Grey scenes with one dark or bright square each; with shapes, its mask and two corners as keypoints."""
    from tests.support.record_files import example, write_records

    (folder / "Split-train").mkdir(parents=True)
    (folder / "label_map.pbtxt").write_text(LABELS)
    rng = np.random.default_rng(5)
    records = []
    for number in range(images):
        pixels = rng.integers(100, 150, (64, 64, 3), dtype=np.uint8)
        y, x = rng.integers(0, 36, 2)
        pixels[y : y + 28, x : x + 28] = 20 if number % 2 else 230
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        fields = {
            "image/encoded": [buffer.getvalue()],
            "image/source_id": [str(number).encode()],
            "image/object/class/label": [2 - number % 2 if number % 2 == 0 else 1],
        }
        corners = {"ymin": y, "xmin": x, "ymax": y + 28, "xmax": x + 28}
        fields |= {f"image/object/bbox/{name}": [float(value) / 64] for name, value in corners.items()}
        if shapes:
            buffer, mask = io.BytesIO(), np.zeros((64, 64), np.uint8)
            mask[y : y + 28, x : x + 28] = 1
            Image.fromarray(mask).save(buffer, "PNG")
            fields |= {
                "image/object/mask": [buffer.getvalue()],
                "image/object/keypoint/y": [y / 64, (y + 28) / 64],
                "image/object/keypoint/x": [x / 64, (x + 28) / 64],
                "image/object/keypoint/visibility": [2, 2],
            }
        records.append(example(fields))
    write_records(folder / "Split-train" / "examples-00000-of-00001.tfrecord", records)
    return folder
