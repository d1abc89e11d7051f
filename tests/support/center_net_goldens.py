"""CenterNet: small detectors, and the published configurations with what the reference computed from them.

`families/data/center_net` holds, for each configuration, its text, the variables of its checkpoint, and
samples of what the reference computed from deterministic weights; `families/center_net/data` holds single
functions.
"""

import pathlib
import re

import numpy as np
import tensorflow as tf

from detection_core.config.load import parse_pipeline_config
from detection_core.families.center_net.build import build_center_net
from detection_core.families.center_net.checkpoint_names import object_paths
from detection_core.families.center_net.model import CenterNetModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import GroundTruth
from tests.support import golden_networks
from tests.support.efficientdet_goldens import deterministic_weight

DATA = pathlib.Path(__file__).parents[1] / "detection_core" / "families" / "data" / "center_net"
NAMES = tuple(sorted(path.stem for path in DATA.glob("*.npz")))
SIDES = ("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle")
KEYPOINTS = ("nose", *(f"{side}_{part}" for part in SIDES for side in ("left", "right")))


def label_map(keypoints: tuple[str, ...] = KEYPOINTS, name: str = "/m/01g317", more: str = "") -> str:
    """The text of a label map with keypoints of its first class."""
    points = " ".join(f"keypoints {{ id: {i} label: '{label}' }}" for i, label in enumerate(keypoints))
    return f"item {{ id: 1 name: '{name}' display_name: 'person' {points} }}\n{more}"


class Golden(golden_networks.Golden):
    """What is known of one configuration."""

    def config(self, labels: str = "", side: int = 0) -> TrainEvalPipelineConfig:
        """The configuration; with the path of a label map, and a side of its images."""
        text = self.facts["config"]
        if side:
            text = re.sub(r"(m(?:in|ax)_dimension: )\d+", rf"\g<1>{side}", text)
        config = parse_pipeline_config(text)
        if labels:
            config.model.center_net.keypoint_label_map_path = labels
        return config

    @property
    def truth(self) -> GroundTruth:
        """Three objects in the first image and one in the second, each with 17 keypoints."""
        truth = super().truth
        boxes, k = truth.boxes.numpy()[:, :, np.newaxis], np.arange(17)
        shares = np.stack([(k + 0.5) / 17, (5 * k % 17 + 0.5) / 17], axis=-1)
        points = boxes[..., :2] + (boxes[..., 2:] - boxes[..., :2]) * shares
        known = np.broadcast_to(truth.valid.numpy()[..., np.newaxis], points.shape[:3])
        return truth._replace(
            keypoints=tf.constant(np.where(known[..., np.newaxis], points, np.nan), tf.float32),
            keypoint_weights=tf.constant(known, tf.float32),
        )


def load_golden(name: str) -> Golden:
    return golden_networks.load_golden(name, Golden, DATA)


class RawInputModel(CenterNetModel):
    """Takes the golden input as it is."""

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        return pixels


def build_filled(config: TrainEvalPipelineConfig) -> RawInputModel:
    """A detector with deterministic weights, which takes its input as it is."""
    built = build_center_net(config.model.center_net, "model.center_net")
    for path, variable in object_paths(built).items():
        variable.assign(deterministic_weight(path, tuple(variable.shape)))
    return RawInputModel(built.network, built.parts)


MODEL = """
model {
  center_net {
    num_classes: 2
    feature_extractor { type: "EXTRACTOR" OPTIONS }
    image_resizer { fixed_shape_resizer { height: 64 width: 64 } }
    object_detection_task { localization_loss { l1_localization_loss { } } scale_head_params { HEAD } }
    object_center_params {
      max_box_predictions: 5 center_head_params { HEAD }
      classification_loss { penalty_reduced_logistic_focal_loss { alpha: 2 beta: 4 } }
    }
    KEYPOINTS
  }
}
"""
TASK = """
keypoint_label_map_path: "LABELS"
keypoint_estimation_task {
  task_name: "corners" keypoint_class_name: "bright" offset_peak_radius: 1 per_keypoint_offset: true
  keypoint_regression_loss_weight: 0.1
  loss {
    localization_loss { l1_localization_loss { } }
    classification_loss { penalty_reduced_logistic_focal_loss { alpha: 2 beta: 4 } }
  }
  keypoint_label_to_std { key: "end" value: 0.5 }
  heatmap_head_params { HEAD } regress_head_params { HEAD } offset_head_params { HEAD }
}
"""
HEAD = "num_filters: 8 kernel_sizes: 3"
LABELS = """
item { id: 1 name: 'dark' }
item { id: 2 name: 'bright' keypoints { id: 0 label: 'start' } keypoints { id: 1 label: 'end' } }
"""


def small_text(extractor: str = "hourglass_10", *, options: str = "", labels: str = "") -> str:
    """The text of a small detector's model; with the path of a label map, it finds two keypoints."""
    task = TASK.replace("LABELS", labels) if labels else ""
    text = MODEL.replace("EXTRACTOR", extractor).replace("OPTIONS", options).replace("KEYPOINTS", task)
    return text.replace("HEAD", HEAD)


def small_config(extractor: str = "hourglass_10", **options: str) -> TrainEvalPipelineConfig:
    return parse_pipeline_config(small_text(extractor, **options))


def build_small(extractor: str = "hourglass_10", *, seed: int | None = 0, **options: str) -> CenterNetModel:
    message = small_config(extractor, **options).model.center_net
    return build_center_net(message, "model.center_net", seed)
