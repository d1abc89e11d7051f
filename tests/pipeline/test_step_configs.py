import pytest

from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from pipeline import step_configs
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import fine_tune_checkpoint, shared_config_text, step_overrides, training_config
from tests.support.cases import refused


def test_each_training_step_has_its_own_config(digits_settings):
    settings = load_settings(digits_settings, ["train_config.batch_size=4", "train_config.num_steps=7"])
    trained = training_config(settings, quantize=False)
    quantized = training_config(settings, quantize=True)
    assert trained.train_config.batch_size == quantized.train_config.batch_size == 4
    assert trained.train_config.num_steps == 7
    assert quantized.train_config.num_steps == settings.quantize.overrides["train_config.num_steps"]
    assert quantized.HasField("graph_rewriter")
    assert fine_tune_checkpoint(settings) == ""
    field = "train_config.fine_tune_checkpoint"
    named = load_settings(digits_settings, [f"{field}=/there/x", f"{field}_version=V2"])
    assert fine_tune_checkpoint(named) == "/there/x"


def test_override_files_and_additions_reach_the_training(digits_settings, tmp_path):
    files = [tmp_path / "a.config", tmp_path / "b.config"]
    files[0].write_text("train_config { batch_size: 2 num_steps: 3 }")
    files[1].write_text(
        'train_config { batch_size: 4 } eval_config { metrics_set: "coco_detection_metrics" }'
    )
    added = "eval_config.metrics_set[+]"
    overrides = [f"{added}=pascal_voc_detection_metrics", f"train.overrides.{added}=oid_V2_detection_metrics"]
    plain = load_settings(digits_settings)
    settings = load_settings(digits_settings, overrides, override_files=[str(f) for f in files])
    before = training_config(plain, quantize=False)
    trained = training_config(settings, quantize=False)
    assert (trained.train_config.batch_size, trained.train_config.num_steps) == (4, 3)
    metrics = ("coco_detection_metrics", "pascal_voc_detection_metrics", "oid_V2_detection_metrics")
    assert list(trained.eval_config.metrics_set) == [*before.eval_config.metrics_set, *metrics]


def test_the_shared_config_leaves_the_quantization_to_its_step_and_its_own_block(digits_settings):
    plain = load_settings(digits_settings)
    changed = load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"])
    assert "\n" not in shared_config_text(plain).strip()
    assert not parse_pipeline_config(shared_config_text(plain)).HasField("graph_rewriter")
    assert shared_config_text(plain) == shared_config_text(changed)
    assert step_overrides(plain, quantize=False) == step_overrides(changed, quantize=False)
    assert step_overrides(plain, quantize=True) != step_overrides(changed, quantize=True)
    own = "quantize.overrides={graph_rewriter: {quantization: {delay: 1}}}"
    found = step_overrides(load_settings(digits_settings, [own]), quantize=True)
    assert found == {"graph_rewriter": {"quantization": {"delay": 1}}}


ZOO_MODEL = "zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def test_starting_from_published_weights_is_trainer_s_alone_and_imagenet_names_the_backbone(digits_settings):
    published = 'train_config.fine_tune_checkpoint="PATH_TO_BE_CONFIGURED/mobilenet_v2.ckpt-1"'
    settings = load_settings(digits_settings, [f"train.start_from={ZOO_MODEL}", published])
    train = training_config(settings, quantize=False).train_config
    assert (train.fine_tune_checkpoint, train.fine_tune_checkpoint_type) == (ZOO_MODEL, "full")
    assert fine_tune_checkpoint(settings) == ZOO_MODEL
    merged = apply_overrides(
        parse_pipeline_config(shared_config_text(settings)), step_overrides(settings, quantize=False)
    )
    assert merged.train_config == train
    assert not any("fine_tune" in path for path in step_overrides(settings, quantize=True))

    def load(start, more):
        return load_settings(digits_settings, [f"train.start_from={start}", more])

    less = load(ZOO_MODEL, "train.overrides={train_config.fine_tune_checkpoint_type: detection}")
    assert training_config(less, quantize=False).train_config.fine_tune_checkpoint_type == "detection"
    multiplier = "model.ssd.feature_extractor.depth_multiplier"
    assert fine_tune_checkpoint(load("imagenet", f"{multiplier}=0.5")) == "imagenet:mobilenet_v2:0.5"
    with pytest.raises(ConfigError, match=r"depth_multiplier of 0.35, 0.5.*found 0.6"):
        fine_tune_checkpoint(load("imagenet", f"{multiplier}=0.6"))


def test_a_schema_travels_as_text_once_it_is_one(digits_settings, tmp_path):
    assert step_configs.schema_text(load_settings(digits_settings)) == ""
    schema = tmp_path / "examples_schema.pbtxt"
    settings = load_settings(digits_settings, [f"validation.schema_file={schema}"])
    refused(ConfigError, "schema", step_configs.schema_text, settings)
    schema.write_text("feature { name: 'image/height' type: INT int_domain { min: 1 } }")
    assert step_configs.schema_text(settings) == schema.read_text()
    schema.write_text("feature { name: 'image/height' typ: INT }")
    error = refused(ConfigError, "typ", step_configs.schema_text, settings)
    assert error.where.startswith(str(schema))
