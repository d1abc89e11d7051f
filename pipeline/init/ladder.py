"""The detectors that a first workflow may have, from fast to accurate, as facts."""

from __future__ import annotations

import dataclasses
import difflib

from detection_core.config.automl.defaults import MODELS
from detection_core.errors import ConfigError, shorten
from detection_core.zoo.networks import SSD_TARGETS, network_text, ssdlite_text
from detection_core.zoo.published_models import SPEEDS, PublishedModel, Speed, list_models

SMALL = "ssd_mobilenet_v2_fpnlite_half"
_SMALL_SIDE = 256
_SMALL_TEXT = (
    """model {
  ssd {
    image_resizer { fixed_shape_resizer { height: 256 width: 256 } }
    feature_extractor {
      type: "ssd_mobilenet_v2_fpn_keras"
      use_depthwise: true
      depth_multiplier: 0.5
      min_depth: 8
      fpn { min_level: 3 max_level: 5 additional_layer_depth: 64 }
      override_base_feature_extractor_hyperparams: true
      conv_hyperparams {
        activation: RELU_6
        regularizer { l2_regularizer { weight: 0.00004 } }
        initializer { variance_scaling_initializer { factor: 2.0 mode: FAN_IN uniform: false } }
        batch_norm { scale: true decay: 0.97 epsilon: 0.001 }
      }
    }
    box_predictor {
      weight_shared_convolutional_box_predictor {
        depth: 64
        num_layers_before_predictor: 2
        kernel_size: 3
        use_depthwise: true
        share_prediction_tower: true
        class_prediction_bias_init: -4.6
        conv_hyperparams {
          activation: RELU_6
          regularizer { l2_regularizer { weight: 0.00004 } }
          initializer { variance_scaling_initializer { factor: 2.0 mode: FAN_IN uniform: false } }
          batch_norm { scale: true decay: 0.97 epsilon: 0.001 }
        }
      }
    }
    anchor_generator {
      multiscale_anchor_generator {
        min_level: 3
        max_level: 5
        anchor_scale: 3.0
        aspect_ratios: [1.0]
        scales_per_octave: 2
      }
    }
    loss {
      classification_loss { weighted_sigmoid_focal { alpha: 0.25 gamma: 2.0 } }
      localization_loss { weighted_smooth_l1 { } }
      classification_weight: 1.0
      localization_weight: 1.0
    }
    post_processing {
      batch_non_max_suppression {
        score_threshold: 0.01
        iou_threshold: 0.5
        max_detections_per_class: 100
        max_total_detections: 100
      }
      score_converter: SIGMOID
    }"""
    + SSD_TARGETS
    + "\n  }\n}\n"
)

# Suppression as TensorFlow Lite files have it, and as google/automl measures with.
_AUTOML_TEXT = """model {{
  efficientdet {{
    name: "{name}"
    image_resizer {{ fixed_shape_resizer {{ height: {side} width: {side} }} }}
    nms_configs {{ method: "hard" mode: "per_class" iou_thresh: 0.5 score_thresh: 0.01 }}
  }}
}}
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A detector to start from, its weights or its architecture.

    Attributes:
        name: what `--model` takes.
        speed: rung of the ladder.
        side: height and width of the input that the other numbers are for, pixels.
        parameters: numbers in all variables, of a detector of 90 classes.
        multiply_adds: of a detector of 90 classes for one image.
        training_bytes: memory that a step of training takes for each pixel of a batch; 0: not measured.
        coco_map: published mAP on COCO 2017, percent; None: nobody published the network.
        published: whose weights it may start from; None for one whose weights are not fetched.
    """

    name: str
    speed: Speed
    side: int
    parameters: int
    multiply_adds: int
    training_bytes: int
    coco_map: float | None = None
    published: PublishedModel | None = None

    def text(self) -> str:
        """Return the `model` section of its pipeline.config, without a number of classes."""
        if self.name in SSDLITE:
            extractor = SSDLITE[self.name].extractor
            return ssdlite_text(extractor, overridden="mobiledet" not in extractor, side=self.side)
        if self.name in MODELS:
            return _AUTOML_TEXT.format(name=self.name, side=self.side)
        return network_text(self.published) if self.published else _SMALL_TEXT


# What benchmarks/networks.py measures; a test builds the networks and compares.
_MULTIPLY_ADDS: dict[str, int] = {
    SMALL: 149_858_304,
    "ssd_mobilenet_v2_320x320_coco17_tpu-8": 772_779_056,
    "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8": 985_034_496,
    "ssd_mobilenet_v2_fpnlite_640x640_coco17_tpu-8": 3_938_345_600,
    "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8": 61_582_451_200,
    "ssd_resnet50_v1_fpn_640x640_coco17_tpu-8": 89_158_976_000,
    "efficientdet_d0_coco17_tpu-32": 2_492_331_520,
    "efficientdet_d1_coco17_tpu-32": 5_504_677_680,
    "efficientdet_d2_coco17_tpu-32": 9_964_721_920,
    "ssd_resnet50_v1_fpn_1024x1024_coco17_tpu-8": 228_246_978_560,
    "ssd_resnet101_v1_fpn_640x640_coco17_tpu-8": 119_462_822_400,
    "ssd_resnet101_v1_fpn_1024x1024_coco17_tpu-8": 305_824_825_344,
    "ssd_resnet152_v1_fpn_640x640_coco17_tpu-8": 149_766_668_800,
    "ssd_resnet152_v1_fpn_1024x1024_coco17_tpu-8": 383_402_672_128,
    "efficientdet_d3_coco17_tpu-32": 23_164_788_224,
    "efficientdet_d4_coco17_tpu-32": 52_092_086_624,
    "efficientdet_d5_coco17_tpu-32": 123_977_489_088,
    "efficientdet_d6_coco17_tpu-32": 255_647_351_904,
    "efficientdet_d7_coco17_tpu-32": 304_240_432_992,
    "efficientdet-d0": 2_492_331_520,
    "efficientdet-d1": 6_003_416_880,
    "efficientdet-d2": 10_832_466_688,
    "efficientdet-d3": 24_568_753_664,
    "efficientdet-d4": 54_583_712_096,
    "efficientdet-d5": 134_133_865_152,
    "efficientdet-d6": 224_121_477_984,
    "efficientdet-d7": 322_731_636_576,
    "efficientdet-d7x": 407_628_345_344,
    "efficientdet-lite0": 973_589_696,
    "efficientdet-lite1": 1_966_649_904,
    "efficientdet-lite2": 3_371_304_384,
    "efficientdet-lite3": 7_480_187_904,
    "efficientdet-lite3x": 13_978_127_600,
    "efficientdet-lite4": 20_168_084_000,
}
_SMALL_PARAMETERS = 648_814
_AUTOML_PARAMETERS = {
    "efficientdet-d0": 3_927_203,
    "efficientdet-d1": 6_697_354,
    "efficientdet-d2": 8_178_815,
    "efficientdet-d3": 12_146_600,
    "efficientdet-d4": 20_890_987,
    "efficientdet-d5": 33_880_707,
    "efficientdet-d6": 52_183_766,
    "efficientdet-d7": 52_183_766,
    "efficientdet-d7x": 77_564_894,
    "efficientdet-lite0": 3_290_606,
    "efficientdet-lite1": 4_311_390,
    "efficientdet-lite2": 5_324_894,
    "efficientdet-lite3": 8_455_054,
    "efficientdet-lite3x": 9_392_574,
    "efficientdet-lite4": 15_286_398,
}
# Bytes for each pixel of a batch in a step of training on processors, measured. D6 and D7 are one network, so
# they show how far two measurements are apart.
_TRAINING_BYTES: dict[str, int] = {
    SMALL: 1_028,
    "ssd_mobilenet_v2_320x320_coco17_tpu-8": 1_352,
    "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8": 2_059,
    "ssd_mobilenet_v2_fpnlite_640x640_coco17_tpu-8": 2_059,
    "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8": 2_238,
    "ssd_resnet50_v1_fpn_640x640_coco17_tpu-8": 3_441,
    "ssd_resnet50_v1_fpn_1024x1024_coco17_tpu-8": 3_441,
    "ssd_resnet101_v1_fpn_640x640_coco17_tpu-8": 3_806,
    "ssd_resnet101_v1_fpn_1024x1024_coco17_tpu-8": 3_806,
    "ssd_resnet152_v1_fpn_640x640_coco17_tpu-8": 5_569,
    "ssd_resnet152_v1_fpn_1024x1024_coco17_tpu-8": 5_569,
    "efficientdet_d0_coco17_tpu-32": 4_476,
    "efficientdet_d1_coco17_tpu-32": 5_223,
    "efficientdet_d2_coco17_tpu-32": 5_377,
    "efficientdet_d3_coco17_tpu-32": 6_576,
    "efficientdet_d4_coco17_tpu-32": 9_131,
    "efficientdet_d5_coco17_tpu-32": 11_165,
    "efficientdet_d6_coco17_tpu-32": 15_263,
    "efficientdet_d7_coco17_tpu-32": 13_808,
}


# Rung, and published mAP on COCO 2017 val; of Lite it is that of its int8 files.
_AUTOML: dict[str, tuple[Speed, float | None]] = {
    "efficientdet-lite0": ("fast", 25.7),
    "efficientdet-lite1": ("fast", 30.6),
    "efficientdet-lite2": ("fast", 34.0),
    "efficientdet-lite3": ("balanced", 37.7),
    "efficientdet-lite3x": ("balanced", None),
    "efficientdet-lite4": ("balanced", 42.0),
    "efficientdet-d0": ("balanced", 34.3),
    "efficientdet-d1": ("balanced", 40.2),
    "efficientdet-d2": ("balanced", 42.5),
    "efficientdet-d3": ("accurate", 47.2),
    "efficientdet-d4": ("accurate", 49.3),
    "efficientdet-d5": ("accurate", 51.2),
    "efficientdet-d6": ("accurate", 52.1),
    "efficientdet-d7": ("accurate", 53.4),
    "efficientdet-d7x": ("accurate", 54.4),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdLite:
    """A detector of TensorFlow 1's model zoo for mobile devices; its input is 320 x 320.

    Attributes:
        extractor: its `feature_extractor.type`.
        parameters: numbers in all variables, of a detector of 90 classes.
        multiply_adds: of a detector of 90 classes for one image.
        coco_map: published mAP of its float weights on COCO 2014 minival, percent; None where only its
            quantized ones have one.
    """

    extractor: str
    parameters: int
    multiply_adds: int
    coco_map: float | None


_SSDLITE_SIDE = 320
SSDLITE: dict[str, SsdLite] = {
    f"ssdlite_{name}_320x320_coco": SsdLite(
        extractor=f"ssd_{name}", parameters=parameters, multiply_adds=multiply_adds, coco_map=coco_map
    )
    for name, parameters, multiply_adds, coco_map in (
        ("mobilenet_v3_small", 1_806_207, 162_303_424, 15.4),
        ("mobilenet_v3_large", 3_281_199, 506_563_904, 22.6),
        ("mobiledet_cpu", 4_205_423, 444_227_776, 24.0),
        ("mobilenet_edgetpu", 3_905_055, 2_072_672_704, None),
        ("mobiledet_edgetpu", 4_196_095, 1_533_181_504, 25.9),
        ("mobiledet_dsp", 7_159_343, 2_816_403_904, 28.9),
        ("mobiledet_gpu", 13_109_151, 5_073_184_704, 28.7),
    )
}
"""Names of published configurations, without what they say of the training."""


def list_networks() -> tuple[Network, ...]:
    """Return all, from fast to accurate, the fewest operations first."""
    small = Network(
        name=SMALL,
        speed="fast",
        side=_SMALL_SIDE,
        parameters=_SMALL_PARAMETERS,
        multiply_adds=_MULTIPLY_ADDS[SMALL],
        training_bytes=_TRAINING_BYTES[SMALL],
    )
    published = [
        Network(
            name=model.name,
            speed=model.speed,
            side=model.input_side,
            parameters=model.parameters,
            multiply_adds=_MULTIPLY_ADDS.get(model.name, 0),
            training_bytes=_TRAINING_BYTES[model.name],
            coco_map=model.coco_map,
            published=model,
        )
        for model in list_models()
    ]
    automl = [
        Network(
            name=name,
            speed=speed,
            side=MODELS[name]["image_size"],
            parameters=_AUTOML_PARAMETERS[name],
            multiply_adds=_MULTIPLY_ADDS[name],
            training_bytes=_TRAINING_BYTES.get(name, 0),
            coco_map=coco_map,
        )
        for name, (speed, coco_map) in _AUTOML.items()
    ]
    ssdlite = [
        Network(
            name=name,
            speed="fast",
            side=_SSDLITE_SIDE,
            parameters=facts.parameters,
            multiply_adds=facts.multiply_adds,
            training_bytes=_TRAINING_BYTES.get(name, 0),
            coco_map=facts.coco_map,
        )
        for name, facts in SSDLITE.items()
    ]
    return small, *sorted(
        [*published, *automl, *ssdlite], key=lambda n: (SPEEDS.index(n.speed), n.multiply_adds)
    )


def find_network(name: str) -> Network:
    """Return a network by its name.

    Raises:
        ConfigError: where there is none of that name, with the names that look like it.
    """
    known = {network.name: network for network in list_networks()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "`detflow init --list-models` shows them"
    raise ConfigError(
        f"expected a detector that is built here, found {shorten(name)}; {hint}", where="--model"
    )
