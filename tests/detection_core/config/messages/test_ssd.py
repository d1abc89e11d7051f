from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, TWO_STAGE, assert_fine, assert_problems

SSD = "model.ssd"
PYRAMID_ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
LAYER_ANCHORS = f"{SSD}.anchor_generator.ssd_anchor_generator"
NMS = f"{SSD}.post_processing.batch_non_max_suppression"

# Config, what is changed in it, and the paths of the problems that must be found, no more and no fewer.
WRONG = [
    (PYRAMID, {f"{PYRAMID_ANCHORS}.aspect_ratios": "[]"}, {f"{PYRAMID_ANCHORS}.aspect_ratios"}),
    (
        PYRAMID,
        {f"{SSD}.feature_extractor.type": "ssd_mobilenet_v2_mnasfpn"},
        {f"{SSD}.feature_extractor.type"},
    ),
    (PYRAMID, {f"{SSD}.feature_extractor.type": "ssd_mobilenet_v2_keras"}, {f"{SSD}.feature_extractor.fpn"}),
    (
        PYRAMID,
        {f"{SSD}.feature_extractor.bifpn": {"min_level": 3, "max_level": 6}},
        {f"{SSD}.feature_extractor.bifpn"},
    ),
    (PYRAMID, {f"{SSD}.box_coder": {}}, {f"{SSD}.box_coder"}),
    (PYRAMID, {f"{SSD}.matcher": "unset"}, {f"{SSD}.matcher"}),
    (PYRAMID, {f"{SSD}.loss": {}}, {f"{SSD}.loss.localization_loss", f"{SSD}.loss.classification_loss"}),
    (PYRAMID, {f"{SSD}.anchor_generator": {}}, {f"{SSD}.anchor_generator"}),
    (PYRAMID, {f"{SSD}.box_predictor": {}}, {f"{SSD}.box_predictor"}),
    (PYRAMID, {f"{SSD}.similarity_calculator": {}}, {f"{SSD}.similarity_calculator"}),
    (
        TWO_STAGE,
        {"model.faster_rcnn.image_resizer.conditional_shape_resizer.condition": "INVALID"},
        {"model.faster_rcnn.image_resizer.conditional_shape_resizer.condition"},
    ),
    (PYRAMID, {f"{PYRAMID_ANCHORS}.max_level": 7}, {PYRAMID_ANCHORS}),
    (
        PYRAMID,
        {f"{SSD}.anchor_generator": {"ssd_anchor_generator": {}}},
        {f"{LAYER_ANCHORS}.num_layers", f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor"},
    ),
    # An extractor whose name fixes the number of feature maps.
    (
        LAYERS,
        {f"{SSD}.feature_extractor": {"type": "ssd_resnet50_v1_fpn_keras"}},
        {f"{LAYER_ANCHORS}.num_layers"},
    ),
    (LAYERS, {f"{SSD}.image_resizer": {"keep_aspect_ratio_resizer": {}}}, {f"{SSD}.image_resizer"}),
    (
        LAYERS,
        {f"{SSD}.explicit_background_class": True},
        {f"{SSD}.num_classes", f"{SSD}.explicit_background_class"},
    ),
    (LAYERS, {f"{SSD}.feature_extractor.num_layers": 5}, {f"{LAYER_ANCHORS}.num_layers"}),
    (
        LAYERS,
        {f"{LAYER_ANCHORS}.scales": [0.5]},
        {f"{LAYER_ANCHORS}.{name}" for name in ("scales", "height_stride", "width_stride")},
    ),
    (
        LAYERS,
        {f"{LAYER_ANCHORS}.height_stride": [1, 2]},
        {f"{LAYER_ANCHORS}.{s}_stride" for s in ("height", "width")},
    ),
    (LAYERS, {f"{LAYER_ANCHORS}.height_offset": [1, 2, 3, 4]}, {f"{LAYER_ANCHORS}.width_offset"}),
    (PYRAMID, {f"{SSD}.loss.hard_example_miner": {}}, {f"{SSD}.loss.hard_example_miner"}),
    (PYRAMID, {f"{NMS}.max_detections_per_class": 200}, {f"{NMS}.max_detections_per_class"}),
    (
        PYRAMID,
        {
            f"{NMS}.use_combined_nms": True,
            f"{NMS}.use_class_agnostic_nms": True,
            f"{NMS}.soft_nms_sigma": 0.5,
        },
        {f"{NMS}.use_class_agnostic_nms", f"{NMS}.soft_nms_sigma"},
    ),
    (
        TWO_STAGE,
        {"model.faster_rcnn.second_stage_post_processing.batch_non_max_suppression.max_total_detections": 5},
        {"model.faster_rcnn.second_stage_post_processing.batch_non_max_suppression.max_detections_per_class"},
    ),
]


@cases(*WRONG)
def test_a_problem_is_found_where_it_is_and_nowhere_else(*, path, changes, expected):
    assert_problems(path, changes, expected)


FINE = [
    (LAYERS, {f"{LAYER_ANCHORS}.scales": [0.1, 0.2, 0.4, 0.8]}),
    # Scales beyond num_layers are left out, and layers beyond the scales.
    (LAYERS, {f"{LAYER_ANCHORS}.scales": [0.1, 0.2, 0.4, 0.8, 0.9]}),
    (LAYERS, {f"{LAYER_ANCHORS}.scales": [0.1, 0.2, 0.4, 0.8], f"{LAYER_ANCHORS}.num_layers": 6}),
]


@cases(*FINE)
def test_what_is_unusual_but_right_passes(*, path, changes):
    assert_fine(path, changes)
