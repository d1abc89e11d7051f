from detection_core.config.check import check_pipeline_config, find_problems
from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.sizes import efficientdet_size_problems
from detection_core.config.paths.overrides import apply_overrides
from detection_core.protos.efficientdet_pb2 import EfficientDet
from tests.support.cases import cases, config_refused
from tests.support.configs import PYRAMID, assert_any, assert_fine, changed
from tests.support.zoo_configs import ZOO, zoo_config

SSD = "model.ssd"
HEAD = f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor"
ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
RESIZER = f"{SSD}.image_resizer.fixed_shape_resizer"
NMS = f"{SSD}.post_processing.batch_non_max_suppression"

SIDES = (f"{RESIZER}.height", f"{RESIZER}.width")


# What is changed, and the message: what was found and what the limit is.
@cases(
    ({"num_classes": 1_000_000}, "num_classes: .*up to 100,000, found 1,000,000"),
    (dict.fromkeys(SIDES, 20_000), "height: .*to 16,384, found 20,000"),
    (dict.fromkeys(SIDES, 16_000), "at most 67,108,864 pixels of an image, found 256,000,000"),
    ({"batch_size": 1_000_000}, "batch_size: .*to 65,536, found 1,000,000"),
    (
        {"batch_size": 60_000, **dict.fromkeys(SIDES, 320)},
        "batch_size: .*at most 4,294,967,296 pixels of a batch of 320 x 320 images, found 6,144,000,000",
    ),
    ({f"{HEAD}.depth": 1_000_000}, "depth: .*to 16,384, found 1,000,000"),
    ({f"{HEAD}.num_layers_before_predictor": 1_000_000}, "num_layers_.*: .*to 100, found 1,000,000"),
    ({f"{HEAD}.kernel_size": 100_001}, "kernel_size: .*to 64, found 100,001"),
    ({f"{SSD}.feature_extractor.depth_multiplier": 10_000}, "depth_multiplier: .*up to 16, found 10000"),
    ({"train_input_reader.shuffle_buffer_size": 4_000_000_000}, "shuffle_.*to 10,000,000, found 4,000,"),
    ({f"{NMS}.max_total_detections": 2_000_000_000}, "max_total_.*to 100,000, found 2,000,000,000"),
    ({"train_config.max_number_of_boxes": 2_000_000_000}, "max_number_.*to 100,000, found 2,000,000,000"),
    (
        {"num_classes": 90_000, **dict.fromkeys(SIDES, 2048)},
        "num_classes: expected at most 2,147,483,648 scores and codes of [0-9,]+ anchors, found [0-9,]{13}",
    ),
    (
        {f"{ANCHORS}.scales_per_octave": 8, **dict.fromkeys(SIDES, 8192)},
        "anchor_generator: expected at most 8,388,608 anchors on an image, found [0-9,]{9}",
    ),
)
def test_what_is_too_large_is_refused_with_number_and_limit(*, changes, message):
    config = changed(PYRAMID, changes)
    assert_any(find_problems(config), message)
    config_refused("", check_pipeline_config, config)


def test_the_zoo_is_far_below_the_limits_and_a_list_without_end_is_told_in_a_few_lines():
    for name in ZOO:
        batch_size = 8 * zoo_config(name).train_config.batch_size
        changes = {"num_classes": 1_203, "train_config.batch_size": batch_size}
        for config in (zoo_config(name), apply_overrides(zoo_config(name), changes)):
            check_pipeline_config(config, where=name)
    assert_fine(PYRAMID, {"num_classes": 60_000})
    config = load_pipeline_config(PYRAMID)
    config.train_config.optimizer.Clear()
    config.train_input_reader.sample_from_datasets_weights[:] = [-1.0] * 5_000
    caught = config_refused("", check_pipeline_config, config)
    assert len(str(caught)) < 10_000 and "more" in str(caught)


@cases(
    ({}, None),
    ({"num_scales": 100, "min_level": 1}, "m.num_scales"),
    ({"num_classes": 2_000_000}, "m.num_classes"),
    ({"num_scales": 100, "num_classes": 100_000, "min_level": 5}, "m.num_classes"),
    ({"act_type": "none"}, None),
)
def test_predictions_of_an_efficientdet_fit_into_memory(*, fields, path):
    message = EfficientDet(**{"name": "efficientdet-d0", "num_classes": 90, **fields})
    found = [problem.path for problem in efficientdet_size_problems(message, "m", (512, 512))]
    assert found == ([path] if path else [])
