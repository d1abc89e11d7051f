"""Specs, options and what they become."""

import copy

import pytest

from detection_core import ConfigError
from detection_core.config.check import check_pipeline_config
from detflow.object_detector import (
    DataLoader,
    EfficientDetLite0Spec,
    EfficientDetSpec,
    HParams,
    ModelOptions,
    ObjectDetectorOptions,
    QATHParams,
    SupportedModels,
)
from detflow.object_detector.detector_training import Start, find_start, make_config
from detflow.object_detector.efficientdet_spec import FROZEN
from detflow.object_detector.mediapipe_options import make_config as make_mobilenet
from detflow.object_detector.mediapipe_options import make_quantized_config
from detflow.object_detector.record_cache import as_label_map, read_classes
from tests.support.cases import refused
from tests.support.refusals import not_refused

SPEC = SupportedModels.get(SupportedModels.MOBILENET_V2)


def made(**hparams):
    return make_mobilenet(SPEC, ModelOptions(l2_weight_decay=1e-4), HParams(**hparams), classes=3, images=100)


def test_a_training_is_built_with_its_lengths_and_rates():
    config = made()
    check_pipeline_config(config)
    model = config.model.ssd
    assert model.num_classes == 3 and model.image_resizer.fixed_shape_resizer.height == 256
    assert model.feature_extractor.conv_hyperparams.regularizer.l2_regularizer.weight == pytest.approx(1e-4)
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


def test_the_defaults_are_model_maker_s_and_hyper_parameters_are_attributes():
    # https://www.tensorflow.org/lite/api_docs/python/tflite_model_maker/object_detector/EfficientDetLite0Spec
    spec = EfficientDetLite0Spec()
    assert spec.model_name == "efficientdet-lite0"
    assert spec.uri == "https://tfhub.dev/tensorflow/efficientdet/lite0/feature-vector/1"
    assert (spec.epochs, spec.batch_size) == (50, 64)
    assert spec.config.var_freeze_expr == "(efficientnet|fpn_cells|resample_p6)"
    assert spec.config.tflite_max_detections == 25 and spec.config.moving_average_decay == 0
    spec = EfficientDetSpec("efficientdet-d0", hparams={"nms_configs": {"method": "hard"}})
    spec.config.max_instances_per_image = 300
    spec.config.override("nms_configs.iou_thresh=0.4,learning_rate=0.01")
    assert spec.config.max_instances_per_image == 300 and spec.config.as_dict()["learning_rate"] == 0.01
    assert (spec.config.nms_configs.method, spec.config.nms_configs.iou_thresh) == ("hard", 0.4)
    assert copy.deepcopy(spec).config.max_instances_per_image == 300
    with pytest.raises(AttributeError, match="no_such_one"):
        spec.config.no_such_one  # noqa: B018


def test_what_cannot_be_used_is_named_and_a_setting_is_checked_when_it_is_set(caplog):
    cases = [
        ({"model_name": "efficientdet-d9"}, "^model"),
        ({"hparams": "learning_rat=1"}, "^hparams"),
        ({"tpu": "grpc://10.0.0.1"}, "^tpu: "),
        ({"gcp_project": "mine"}, "^gcp_project: "),
        ({"epochs": 0}, "^epochs: "),
        ({"batch_size": 2.5}, "^batch_size: "),
        ({"tflite_max_detections": 0}, "^tflite_max_detections: "),
    ]
    base = {"model_name": "efficientdet-lite0"}
    assert not not_refused(lambda given: EfficientDetSpec(**{**base, **given}), cases, ConfigError)
    spec = EfficientDetLite0Spec()
    with pytest.raises(ConfigError, match="did you mean learning_rate"):
        spec.config.learning_rat = 1
    with pytest.raises(ConfigError, match="momentum"):
        spec.config.momentum = 7
    assert spec.config.momentum == 0.9
    EfficientDetLite0Spec(use_xla=True, steps_per_execution=4)
    assert "without effect: use_xla, steps_per_execution" in caplog.text


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


def test_the_forms_of_a_label_map(tmp_path):
    classes = {1: "cat", 2: "dog"}
    (tmp_path / "map.yaml").write_text("1: cat\n2: dog\n")
    for given in (["cat", "dog"], ("cat", "dog"), classes, {0: "background", **classes}):
        assert read_classes(given) == classes
    assert read_classes(str(tmp_path / "map.yaml")) == classes
    assert len(read_classes("voc")) == 20 and read_classes("coco")[90] == "toothbrush"
    assert as_label_map({2: "dog", 5: "cat"}).names == ["1", "dog", "3", "4", "cat"]
    texts = ([], [""], ["cat", "cat"], "no-such-set", 7)
    maps = ({0: "cat"}, {"1": "cat"}, {True: "cat"}, {-1: "cat"}, {1: 3})
    cases = [(given, "^label_map: ") for given in (*texts, *maps)]
    cases.append((7, r"expected names, ids to names, .* of coco, voc and waymo, found 7"))
    assert not not_refused(read_classes, cases, ConfigError)


DATA = DataLoader("train-*.tfrecord", 100, ["cat", "dog", "cow"])
VALIDATION = DataLoader("eval-*.tfrecord", 20, ["cat", "dog", "cow"])


def efficientdet(spec=None, validation=None, **changes):
    arguments = {"epochs": 12, "batch_size": 8, "label_map_path": "labels.pbtxt"} | changes
    return make_config(spec or EfficientDetLite0Spec(), DATA, validation, **arguments)


def test_data_and_lengths():
    config = efficientdet(validation=VALIDATION)
    assert config.model.efficientdet.name == "efficientdet-lite0"
    assert config.model.efficientdet.num_classes == 3
    assert (config.train_config.batch_size, config.train_config.num_steps) == (8, 12 * (100 // 8))
    assert config.train_input_reader.tf_record_input_reader.input_path == ["train-*.tfrecord"]
    (evaluated,) = config.eval_input_reader
    assert evaluated.tf_record_input_reader.input_path == ["eval-*.tfrecord"]
    assert evaluated.label_map_path == config.train_input_reader.label_map_path == "labels.pbtxt"
    assert config.train_config.validation.every_steps == 5 * (100 // 8)
    assert not efficientdet().train_config.HasField("validation")
    resizer = efficientdet().model.efficientdet.image_resizer.fixed_shape_resizer
    assert (resizer.height, resizer.width) == (320, 320)


def test_random_weights_are_trained_whole_and_a_checkpoint_leaves_the_heads_to_train(caplog, tmp_path):
    assert not efficientdet().model.efficientdet.var_freeze_expr
    assert "starts from random weights" in caplog.text
    chosen = EfficientDetLite0Spec(var_freeze_expr="efficientnet")
    assert efficientdet(chosen).model.efficientdet.var_freeze_expr == "efficientnet"
    import tensorflow as tf

    prefix = tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "model"))
    config = efficientdet(EfficientDetLite0Spec(uri=prefix))
    assert config.model.efficientdet.var_freeze_expr == FROZEN
    train = config.train_config
    assert train.fine_tune_checkpoint == prefix and train.fine_tune_checkpoint_type == "full"
    assert train.fine_tune_checkpoint_version == 2  # object-based
    spec = EfficientDetLite0Spec(uri=prefix)
    spec.config.var_freeze_expr = None
    assert not efficientdet(spec).model.efficientdet.var_freeze_expr
    assert find_start("") == find_start("https://tfhub.dev/x") == Start()
    (tmp_path / "Format-Serving").mkdir()
    assert find_start(str(tmp_path)) == Start(detector=str(tmp_path))
    (tmp_path / "ckpt.index").write_bytes(b"")
    assert find_start(str(tmp_path / "ckpt")) == Start(checkpoint=str(tmp_path / "ckpt"))
    refused(ConfigError, "random weights", find_start, str(tmp_path / "nothing"))


def test_hyper_parameters_reach_the_config():
    spec = EfficientDetLite0Spec(hparams="learning_rate=0.02", moving_average_decay=0.99)
    spec.config.autoaugment_policy = "v1"
    config = efficientdet(spec)
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
    assert schedule.learning_rate == pytest.approx(0.02 * 8 / 64)
    assert config.train_config.optimizer.moving_average_decay == pytest.approx(0.99)
    steps = [step.WhichOneof("preprocessing_step") for step in config.train_config.data_augmentation_options]
    assert "autoaugment_image" in steps
    # A warm-up is as long as it was chosen, also where training ends in it, as in google/automl's tutorials.
    for warm_up, epochs in ((1, 1), (3, 2), (0.5, 1)):
        train = efficientdet(
            EfficientDetLite0Spec(hparams={"lr_warmup_epoch": warm_up}), epochs=epochs
        ).train_config
        schedule = train.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
        assert schedule.warmup_steps == int(warm_up * (train.num_steps // epochs))
    refused(ConfigError, "tpu", efficientdet, EfficientDetLite0Spec(strategy="tpu"))
