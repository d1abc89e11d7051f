import pytest

from detection_core import ConfigError
from detflow.object_detector import DataLoader, EfficientDetLite0Spec
from detflow.object_detector.detector_training import Start, find_start, make_config
from detflow.object_detector.efficientdet_spec import FROZEN
from tests.support.cases import refused

DATA = DataLoader("train-*.tfrecord", 100, ["cat", "dog", "cow"])
VALIDATION = DataLoader("eval-*.tfrecord", 20, ["cat", "dog", "cow"])


def made(spec=None, validation=None, **changes):
    arguments = {"epochs": 12, "batch_size": 8, "label_map_path": "labels.pbtxt"} | changes
    return make_config(spec or EfficientDetLite0Spec(), DATA, validation, **arguments)


def test_data_and_lengths():
    config = made(validation=VALIDATION)
    assert config.model.efficientdet.name == "efficientdet-lite0"
    assert config.model.efficientdet.num_classes == 3
    assert (config.train_config.batch_size, config.train_config.num_steps) == (8, 12 * (100 // 8))
    assert config.train_input_reader.tf_record_input_reader.input_path == ["train-*.tfrecord"]
    (evaluated,) = config.eval_input_reader
    assert evaluated.tf_record_input_reader.input_path == ["eval-*.tfrecord"]
    assert evaluated.label_map_path == config.train_input_reader.label_map_path == "labels.pbtxt"
    assert config.train_config.validation.every_steps == 5 * (100 // 8)
    assert not made().train_config.HasField("validation")
    resizer = made().model.efficientdet.image_resizer.fixed_shape_resizer
    assert (resizer.height, resizer.width) == (320, 320)


def test_random_weights_are_trained_whole_and_a_checkpoint_leaves_the_heads_to_train(caplog, tmp_path):
    assert not made().model.efficientdet.var_freeze_expr
    assert "starts from random weights" in caplog.text
    chosen = EfficientDetLite0Spec(var_freeze_expr="efficientnet")
    assert made(chosen).model.efficientdet.var_freeze_expr == "efficientnet"
    import tensorflow as tf

    prefix = tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "model"))
    config = made(EfficientDetLite0Spec(uri=prefix))
    assert config.model.efficientdet.var_freeze_expr == FROZEN
    train = config.train_config
    assert train.fine_tune_checkpoint == prefix and train.fine_tune_checkpoint_type == "full"
    assert train.fine_tune_checkpoint_version == 2  # object-based
    spec = EfficientDetLite0Spec(uri=prefix)
    spec.config.var_freeze_expr = None
    assert not made(spec).model.efficientdet.var_freeze_expr
    assert find_start("") == find_start("https://tfhub.dev/x") == Start()
    (tmp_path / "Format-Serving").mkdir()
    assert find_start(str(tmp_path)) == Start(detector=str(tmp_path))
    (tmp_path / "ckpt.index").write_bytes(b"")
    assert find_start(str(tmp_path / "ckpt")) == Start(checkpoint=str(tmp_path / "ckpt"))
    refused(ConfigError, "random weights", find_start, str(tmp_path / "nothing"))


def test_hyper_parameters_reach_the_config():
    spec = EfficientDetLite0Spec(hparams="learning_rate=0.02", moving_average_decay=0.99)
    spec.config.autoaugment_policy = "v1"
    config = made(spec)
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
    assert schedule.learning_rate == pytest.approx(0.02 * 8 / 64)
    assert config.train_config.optimizer.moving_average_decay == pytest.approx(0.99)
    steps = [step.WhichOneof("preprocessing_step") for step in config.train_config.data_augmentation_options]
    assert "autoaugment_image" in steps
    # A warm-up is as long as it was chosen, also where training ends in it, as in google/automl's tutorials.
    for warm_up, epochs in ((1, 1), (3, 2), (0.5, 1)):
        train = made(EfficientDetLite0Spec(hparams={"lr_warmup_epoch": warm_up}), epochs=epochs).train_config
        schedule = train.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
        assert schedule.warmup_steps == int(warm_up * (train.num_steps // epochs))
    refused(ConfigError, "tpu", made, EfficientDetLite0Spec(strategy="tpu"))
