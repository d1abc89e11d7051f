from __future__ import annotations

import dataclasses

import pytest

from detection_core.config.load import parse_pipeline_config
from pipeline.checks import CHECKS
from pipeline.dag import FromCheck, FromStep, build_dag, pipeline_config_text
from pipeline.settings_file import load_settings


def _steps(settings):
    return {step.id: step for step in build_dag(settings).steps}


def test_the_quantized_workflow(digits_settings):
    steps = _steps(load_settings(digits_settings))
    assert list(steps) == [
        "example_gen",
        "baseline_resolver",
        "trainer",
        "evaluator",
        "quantization_rewriter",
        "quantized_evaluator",
        "tflite_exporter",
        "pusher",
    ]
    assert steps["quantized_evaluator"].inputs["baseline"] == FromStep("trainer", "model")
    assert steps["pusher"].inputs["quantized_blessing"] == FromStep("quantized_evaluator", "blessing")


def test_without_quantization(digits_settings):
    steps = _steps(load_settings(digits_settings, ["quantize.enabled=false"]))
    assert "quantization_rewriter" not in steps and "quantized_evaluator" not in steps
    assert "quantized_model" not in steps["tflite_exporter"].inputs


def test_producers_come_before_their_consumers_and_checks_exist(digits_settings):
    seen = set()
    for step in build_dag(load_settings(digits_settings)).steps:
        assert {source.step for source in step.inputs.values()} <= seen
        assert {v.name for v in step.parameters.values() if isinstance(v, FromCheck)} <= set(CHECKS)
        seen.add(step.id)


def test_each_training_step_has_its_own_config(digits_settings):
    settings = load_settings(digits_settings, ["train_config.batch_size=4", "train_config.num_steps=7"])
    trained = parse_pipeline_config(pipeline_config_text(settings, quantize=False))
    quantized = parse_pipeline_config(pipeline_config_text(settings, quantize=True))
    assert trained.train_config.batch_size == quantized.train_config.batch_size == 4
    assert trained.train_config.num_steps == 7
    assert quantized.train_config.num_steps == settings.quantize.overrides["train_config.num_steps"]
    assert not trained.HasField("graph_rewriter") and quantized.HasField("graph_rewriter")


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
    before = parse_pipeline_config(pipeline_config_text(plain, quantize=False))
    trained = parse_pipeline_config(pipeline_config_text(settings, quantize=False))
    assert (trained.train_config.batch_size, trained.train_config.num_steps) == (4, 3)
    assert list(trained.eval_config.metrics_set) == [
        *before.eval_config.metrics_set,
        "coco_detection_metrics",
        "pascal_voc_detection_metrics",
        "oid_V2_detection_metrics",
    ]


def test_the_quantized_branch_may_come_from_an_override(digits_settings):
    assert "quantization_rewriter" not in _steps(load_settings(digits_settings, ["graph_rewriter=unset"]))


def test_quantization_settings_do_not_change_the_float_training(digits_settings):
    plain = load_settings(digits_settings)
    changed = load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"])
    assert _steps(plain)["trainer"] == _steps(changed)["trainer"]
    assert _steps(plain)["quantization_rewriter"] != _steps(changed)["quantization_rewriter"]


def test_an_edge_that_does_not_fit_the_contracts_is_refused(digits_settings, monkeypatch):
    from pipeline import dag

    original = dag._evaluator

    def wrong(settings):
        step = original(settings)
        return dataclasses.replace(step, inputs={**step.inputs, "model": FromStep("example_gen", "examples")})

    monkeypatch.setattr(dag, "_evaluator", wrong)
    with pytest.raises(ValueError, match="step evaluator: input model cannot come from"):
        build_dag(load_settings(digits_settings))


def test_training_goes_on_from_the_deployed_model_where_the_settings_say_so(digits_settings):
    steps = _steps(load_settings(digits_settings, ["train.warm_start=deployed"]))
    assert steps["trainer"].inputs["warm_start"] == FromStep("baseline_resolver", "baseline")
    assert steps["trainer"].parameters["warm_start_path"] == ""
    assert "warm_start" not in _steps(load_settings(digits_settings))["trainer"].inputs
