from __future__ import annotations

from detection_core.config.load import parse_pipeline_config
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import fine_tune_checkpoint, shared_config_text, step_overrides, training_config


def test_each_training_step_has_its_own_config(digits_settings):
    settings = load_settings(digits_settings, ["train_config.batch_size=4", "train_config.num_steps=7"])
    trained = training_config(settings, quantize=False)
    quantized = training_config(settings, quantize=True)
    assert trained.train_config.batch_size == quantized.train_config.batch_size == 4
    assert trained.train_config.num_steps == 7
    assert quantized.train_config.num_steps == settings.quantize.overrides["train_config.num_steps"]
    assert quantized.HasField("graph_rewriter")


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
    assert list(trained.eval_config.metrics_set) == [
        *before.eval_config.metrics_set,
        "coco_detection_metrics",
        "pascal_voc_detection_metrics",
        "oid_V2_detection_metrics",
    ]


def test_the_shared_config_leaves_the_quantization_to_its_step(digits_settings):
    plain = load_settings(digits_settings)
    changed = load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"])
    assert "\n" not in shared_config_text(plain).strip()
    assert not parse_pipeline_config(shared_config_text(plain)).HasField("graph_rewriter")
    assert shared_config_text(plain) == shared_config_text(changed)
    assert step_overrides(plain, quantize=False) == step_overrides(changed, quantize=False)
    assert step_overrides(plain, quantize=True) != step_overrides(changed, quantize=True)


def test_a_block_of_one_s_own_takes_the_place_of_the_config_s(digits_settings):
    own = {"graph_rewriter": {"quantization": {"delay": 1}}}
    settings = load_settings(
        digits_settings, ["quantize.overrides={graph_rewriter: {quantization: {delay: 1}}}"]
    )
    assert step_overrides(settings, quantize=True) == own


def test_the_checkpoint_that_training_starts_from(digits_settings, tmp_path):
    assert fine_tune_checkpoint(load_settings(digits_settings)) == ""
    named = [
        f"train_config.fine_tune_checkpoint={tmp_path}/x",
        "train_config.fine_tune_checkpoint_version=V2",
    ]
    assert fine_tune_checkpoint(load_settings(digits_settings, named)) == f"{tmp_path}/x"
