from tests.support import configs
from tests.support.configs import LAYERS, PYRAMID, TWO_STAGE, assert_each_refused, assert_problems

SSD = "model.ssd"
EXTRACTOR, GENERATOR = f"{SSD}.feature_extractor", f"{SSD}.anchor_generator"
PYRAMID_ANCHORS = f"{GENERATOR}.multiscale_anchor_generator"
LAYER_ANCHORS = f"{GENERATOR}.ssd_anchor_generator"
NMS = f"{SSD}.post_processing.batch_non_max_suppression"
SECOND_NMS = "model.faster_rcnn.second_stage_post_processing.batch_non_max_suppression"


def test_a_part_that_is_missing_or_does_not_fit_is_found_where_it_is():
    parts = ("box_coder", "anchor_generator", "box_predictor", "similarity_calculator")
    wrong = {
        **{f"{SSD}.{part}": {} for part in parts},
        f"{PYRAMID_ANCHORS}.aspect_ratios": "[]",
        f"{EXTRACTOR}.type": "ssd_mobilenet_v2_mnasfpn",
        f"{EXTRACTOR}.bifpn": {"min_level": 3, "max_level": 6},
        f"{SSD}.matcher": "unset",
        f"{SSD}.loss.hard_example_miner": {},
        f"{NMS}.max_detections_per_class": 200,
    }
    assert_each_refused(PYRAMID, wrong)
    assert_each_refused(LAYERS, {f"{SSD}.image_resizer": {"keep_aspect_ratio_resizer": {}}})
    resizer = "model.faster_rcnn.image_resizer.conditional_shape_resizer"
    assert_each_refused(TWO_STAGE, {f"{resizer}.condition": "INVALID"})


def test_a_contradiction_is_found_at_one_of_its_fields_or_all():
    def found(path, field, value, *expected):
        assert_problems(path, {field: value}, set(expected))

    found(PYRAMID, f"{EXTRACTOR}.type", "ssd_mobilenet_v2_keras", f"{EXTRACTOR}.fpn")
    losses = (f"{SSD}.loss.localization_loss", f"{SSD}.loss.classification_loss")
    found(PYRAMID, f"{SSD}.loss", {}, *losses)
    found(PYRAMID, f"{PYRAMID_ANCHORS}.max_level", 7, PYRAMID_ANCHORS)
    head = f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor"
    found(PYRAMID, GENERATOR, {"ssd_anchor_generator": {}}, f"{LAYER_ANCHORS}.num_layers", head)
    # An extractor whose name fixes the number of feature maps.
    found(LAYERS, EXTRACTOR, {"type": "ssd_resnet50_v1_fpn_keras"}, f"{LAYER_ANCHORS}.num_layers")
    background = f"{SSD}.explicit_background_class"
    found(LAYERS, background, True, f"{SSD}.num_classes", background)
    found(LAYERS, f"{EXTRACTOR}.num_layers", 5, f"{LAYER_ANCHORS}.num_layers")
    strides = (f"{LAYER_ANCHORS}.height_stride", f"{LAYER_ANCHORS}.width_stride")
    found(LAYERS, f"{LAYER_ANCHORS}.scales", [0.5], f"{LAYER_ANCHORS}.scales", *strides)
    found(LAYERS, strides[0], [1, 2], *strides)
    found(LAYERS, f"{LAYER_ANCHORS}.height_offset", [1, 2, 3, 4], f"{LAYER_ANCHORS}.width_offset")
    found(TWO_STAGE, f"{SECOND_NMS}.max_total_detections", 5, f"{SECOND_NMS}.max_detections_per_class")
    agnostic, sigma = f"{NMS}.use_class_agnostic_nms", f"{NMS}.soft_nms_sigma"
    combined = {f"{NMS}.use_combined_nms": True, agnostic: True, sigma: 0.5}
    assert_problems(PYRAMID, combined, {agnostic, sigma})
    # Scales beyond the layers are left out, and layers beyond the scales.
    scales = [0.1, 0.2, 0.4, 0.8]
    configs.assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": scales})
    configs.assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": [*scales, 0.9]})
    configs.assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": scales, f"{LAYER_ANCHORS}.num_layers": 6})
