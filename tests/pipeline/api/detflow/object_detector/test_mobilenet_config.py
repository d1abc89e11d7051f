import pytest

from detection_core.config.check import check_pipeline_config
from detflow.object_detector import HParams, ModelOptions, QATHParams, SupportedModels
from detflow.object_detector.mobilenet_config import make_config, make_quantized_config

SPEC = SupportedModels.get(SupportedModels.MOBILENET_V2)


def made(**hparams):
    return make_config(SPEC, ModelOptions(l2_weight_decay=1e-4), HParams(**hparams), classes=3, images=100)


def test_a_training_is_built_with_its_lengths_and_rates():
    config = made()
    check_pipeline_config(config)
    model = config.model.ssd
    assert model.num_classes == 3
    assert model.image_resizer.fixed_shape_resizer.height == 256
    weight = model.feature_extractor.conv_hyperparams.regularizer.l2_regularizer.weight
    assert weight == pytest.approx(1e-4)
    assert model.loss.localization_weight == 50

    train = made(batch_size=16, epochs=2).train_config
    assert (train.batch_size, train.num_steps) == (16, 12)
    rate = train.optimizer.momentum_optimizer.learning_rate
    assert rate.constant_learning_rate.learning_rate == pytest.approx(0.3 * 16 / 256)
    assert made(steps_per_epoch=5, epochs=2).train_config.num_steps == 10
    config = made(cosine_decay_epochs=3, cosine_decay_alpha=0, epochs=3)
    check_pipeline_config(config)
    rate = config.train_config.optimizer.momentum_optimizer.learning_rate
    assert rate.cosine_decay_learning_rate.total_steps == 3 * 12
    constant = made(cosine_decay_epochs=3).train_config.optimizer.momentum_optimizer.learning_rate
    assert constant.WhichOneof("learning_rate") == "constant_learning_rate"


def test_training_with_quantization():
    float_config = made()
    float_config.train_config.fine_tune_checkpoint = "zoo:x"
    config = make_quantized_config(float_config, QATHParams(epochs=2, decay_steps=5), images=100)
    check_pipeline_config(config)
    assert config.model == float_config.model and not config.train_config.fine_tune_checkpoint
    assert config.train_config.num_steps == 24
    rate = config.train_config.optimizer.momentum_optimizer.learning_rate.exponential_decay_learning_rate
    assert (rate.decay_steps, rate.staircase) == (5, True)
    assert rate.initial_learning_rate == pytest.approx(0.3 * 8 / 256)
    assert config.graph_rewriter.quantization.weight_bits == 8
    assert float_config.train_config.fine_tune_checkpoint == "zoo:x"
