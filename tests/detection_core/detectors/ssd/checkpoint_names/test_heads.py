import tf_keras

from detection_core.detectors.parts.heads.convolutional import ConvolutionalHead, ConvolutionalHeadOptions
from detection_core.detectors.parts.heads.predictions import HeadOutputs
from detection_core.detectors.parts.heads.weight_shared import WeightSharedHead, WeightSharedHeadOptions
from tests.detection_core.detectors.ssd.checkpoint_names.networks import keys_of, maker

OUTPUTS = HeadOutputs(anchors_per_location=[2, 2], num_class_slots=4)
HEADS = "_box_predictor/_prediction_heads"


def _maps(channels: tuple[int, int] = (8, 8)) -> list:
    return [tf_keras.Input((4, 4, channels[0])), tf_keras.Input((2, 2, channels[1]))]


def test_convolutional_head_counts_dropout_depthwise_norm_and_activation_as_slots():
    options = ConvolutionalHeadOptions(use_depthwise=True, num_layers_before_predictor=2, max_depth=6)
    maps = _maps()
    keys = keys_of(maps, list(ConvolutionalHead(options)(maps, maker(), OUTPUTS)))
    level = {
        "_box_predictor/_shared_nets/1/0",
        "_box_predictor/_shared_nets/1/1",
        "_box_predictor/_shared_nets/1/3",
        "_box_predictor/_shared_nets/1/4",
        f"{HEADS}/box_encodings/1/_box_encoder_layers/0",
        f"{HEADS}/box_encodings/1/_box_encoder_layers/1",
        f"{HEADS}/box_encodings/1/_box_encoder_layers/3",
        f"{HEADS}/class_predictions_with_background/1/_class_predictor_layers/1",
        f"{HEADS}/class_predictions_with_background/1/_class_predictor_layers/2",
        f"{HEADS}/class_predictions_with_background/1/_class_predictor_layers/4",
    }
    assert keys >= level
    assert len(keys) == 2 * len(level)


def test_weight_shared_head_projects_maps_of_different_channels_and_drops_before_the_class_predictor():
    options = WeightSharedHeadOptions(depth=6, num_layers_before_predictor=1, use_dropout=True)
    maps = _maps((8, 6))
    keys = keys_of(maps, list(WeightSharedHead(options)(maps, maker(), OUTPUTS)))
    assert keys == {
        *(
            f"_box_predictor/_additional_projection_layers/{level}/{slot}"
            for level in (0, 1)
            for slot in (0, 1)
        ),
        "_box_predictor/_head_scope_conv_layers/BoxPredictionTower/0",
        "_box_predictor/_head_scope_conv_layers/ClassPredictionTower/0",
        *(f"_box_predictor/_base_tower_layers_for_heads/box_encodings/{level}/1" for level in (0, 1)),
        *(
            f"_box_predictor/_base_tower_layers_for_heads/class_predictions_with_background/{level}/1"
            for level in (0, 1)
        ),
        "_box_predictor/_box_prediction_head/_box_encoder_layers/0",
        f"{HEADS}/class_predictions_with_background/_class_predictor_layers/1",
    }
