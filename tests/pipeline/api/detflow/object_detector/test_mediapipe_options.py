import pytest

from detection_core import ConfigError
from detflow.object_detector import HParams, ModelOptions, ObjectDetectorOptions, QATHParams, SupportedModels
from tests.support.refusals import not_refused


def test_the_defaults_and_the_models_are_mediapipe_s():
    # https://ai.google.dev/edge/api/mediapipe/python/mediapipe_model_maker/object_detector
    given, trained_on = HParams(), QATHParams()
    assert (given.learning_rate, given.batch_size, given.epochs) == (0.3, 8, 30)
    assert (given.cosine_decay_epochs, given.cosine_decay_alpha, given.shuffle) == (None, 1.0, False)
    assert (trained_on.learning_rate, trained_on.batch_size, trained_on.epochs) == (0.3, 8, 15)
    assert (trained_on.decay_steps, trained_on.decay_rate) == (8, 0.96)
    assert ModelOptions().l2_weight_decay == 3e-5
    options = ObjectDetectorOptions(SupportedModels.MOBILENET_V2)
    assert options.hparams is None and options.model_options is None
    assert HParams().export_dir != HParams().export_dir
    assert SupportedModels.get(SupportedModels.MOBILENET_V2).input_image_shape == (256, 256, 3)
    assert SupportedModels.get(SupportedModels.MOBILENET_V2_I320).input_image_shape == (320, 320, 3)
    for model in (SupportedModels.MOBILENET_MULTI_AVG, SupportedModels.MOBILENET_MULTI_AVG_I384, "mine"):
        with pytest.raises(ConfigError, match=r"the nearest is SupportedModels\.MOBILENET_V2_I320") as caught:
            SupportedModels.get(model)
        assert caught.value.where == "supported_model"


def test_what_cannot_be_followed_is_named():
    cases = [
        (HParams, {"learning_rate": 0}),
        (HParams, {"batch_size": 0}),
        (HParams, {"steps_per_epoch": 0}),
        (HParams, {"distribution_strategy": "tpu"}),
        (HParams, {"num_gpus": 2}),
        (HParams, {"tpu": "grpc://10.0.0.1"}),
        (HParams, {"cosine_decay_alpha": 0.5}),
        (QATHParams, {"decay_rate": 0}),
        (ModelOptions, {"l2_weight_decay": -1}),
    ]
    named = [((make, given), f"^{next(iter(given))}: ") for make, given in cases]
    assert not not_refused(lambda case: case[0](**case[1]), named, ConfigError)
