from detection_core.builders.training_outline import build_training_outline, build_without_data
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.quantization.options import QuantizationOptions
from tests.support.cases import config_refused
from tests.support.configs import PYRAMID
from tests.support.tiny_training import config_text


def test_choices_have_the_names_of_their_messages_and_what_needs_no_data_is_built():
    found = build_training_outline(load_pipeline_config(PYRAMID))
    assert (found.optimizer, found.schedule) == ("momentum_optimizer", "cosine_decay_learning_rate")
    assert (found.num_steps, found.batch_size) == (1500, 16)
    assert found.augmentations[:2] == ("random_horizontal_flip", "random_crop_image")
    assert found.quantization == QuantizationOptions(delay=200, weight_bits=8, activation_bits=8)
    config = parse_pipeline_config(config_text())
    build_without_data(config)
    for field, value in (("train_config.use_multiclass_scores", True), ("model.ssd.image_resizer", "unset")):
        config_refused(field, build_without_data, apply_overrides(config, {field: value}))
    for text in ("", "train_config { optimizer { } }"):
        found = build_training_outline(parse_pipeline_config(text))
        assert (found.optimizer, found.schedule, found.num_steps, found.augmentations) == ("", "", 0, ())
        assert found.quantization is None
