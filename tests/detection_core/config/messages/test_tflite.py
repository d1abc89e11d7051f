from __future__ import annotations

import pytest
from google.protobuf import text_format

from detection_core.config.messages.pipeline import clip_range_problems, tflite_problems
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

FIXED = "image_resizer { fixed_shape_resizer {} }"
CLIP = "box_encodings_clip_range { min: -5 max: 5 }"


def config_of(model: str) -> TrainEvalPipelineConfig:
    config = TrainEvalPipelineConfig()
    text_format.Parse(model, config.model)
    return config


def test_a_detector_of_one_size_without_a_clip_range_passes():
    head = "box_predictor { weight_shared_convolutional_box_predictor {} }"
    assert not list(tflite_problems(config_of(f"ssd {{ {FIXED} {head} }}")))


@pytest.mark.parametrize("head", ["convolutional", "weight_shared_convolutional"])
def test_a_clip_range_is_found_in_either_head(head):
    config = config_of(f"ssd {{ {FIXED} box_predictor {{ {head}_box_predictor {{ {CLIP} }} }} }}")
    path = f"model.ssd.box_predictor.{head}_box_predictor.box_encodings_clip_range"
    assert (
        [p.path for p in tflite_problems(config)] == [p.path for p in clip_range_problems(config)] == [path]
    )


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("faster_rcnn {}", "model"),
        ("ssd { image_resizer { identity_resizer {} } }", "model.ssd.image_resizer"),
    ],
)
def test_other_families_and_free_sizes_are_found(model, path):
    assert [p.path for p in tflite_problems(config_of(model))] == [path]
