"""The workflow as steps, their parameters, configs and states."""

import dataclasses
import json

import pytest

from component_specs import JOBS, ConfigGenJob
from component_specs.annotations import job_fields
from components.config_gen.run import run as write_config
from components.run_checker.run import FILLED
from detection_core.artifacts.run_info import STEP_STATES, StepInfo
from detection_core.config.load import load_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from pipeline import step_configs as configs
from pipeline.dag import before, build_dag, check_contracts
from pipeline.kubeflow.step_state import word_of
from pipeline.run_checks import CHECKS, check_step
from pipeline.run_parameters import (
    CHECKER,
    RUN_PARAMETERS,
    Parameter,
    check_parameters,
    declared_parameters,
    parse_parameters,
    set_parameters,
)
from pipeline.settings.settings_file import load_settings
from pipeline.steps import FromCheck, FromResult, FromStep, StepStatus
from tests.support.cases import refused
from tests.support.refusals import not_refused


def _steps(settings):
    return {step.id: step for step in build_dag(settings).steps}


def test_the_steps_of_the_workflows_what_a_step_needs_and_which_checks_exist(digits_settings):
    steps = _steps(load_settings(digits_settings))
    names = "config_gen example_gen baseline_resolver data_validator trainer evaluator quantization_rewriter"
    assert " ".join(steps) == f"{names} quantized_evaluator tflite_exporter pusher"
    assert steps["quantized_evaluator"].inputs["baseline"] == FromStep("trainer", "model")
    assert steps["pusher"].inputs["quantized_blessing"] == FromStep("quantized_evaluator", "blessing")
    without = _steps(load_settings(digits_settings, ["quantize.enabled=false"]))
    assert "quantization_rewriter" not in without and "quantized_evaluator" not in without
    assert "quantized_model" not in without["tflite_exporter"].inputs
    assert "quantization_rewriter" not in _steps(load_settings(digits_settings, ["graph_rewriter=unset"]))
    assert steps["trainer"].parameters["stop_reasons"] == FromResult("data_validator", "stop_reasons")
    without = _steps(load_settings(digits_settings, ["validation.enabled=false"]))
    assert "data_validator" not in without and "stop_reasons" not in without["trainer"].parameters


def test_one_setting_gives_all_steps_their_tiles(digits_settings):
    block = "train_config.validation"
    tiled = ["data.tiles.size=64", "data.tiles.overlap=0.25"]
    settings = load_settings(digits_settings, [*tiled, f"{block}.every_steps=10"])
    steps = _steps(settings)
    tiles = {"size": 64, "overlap": 0.25, "min_visibility": 0.3}
    found = {name: step.parameters["tiles"] for name, step in steps.items() if "tiles" in step.parameters}
    assert found == dict.fromkeys(
        ("example_gen", "evaluator", "quantized_evaluator", "tflite_exporter"), tiles
    )
    in_validation = {f"{block}.tile_size": 64, f"{block}.tile_overlap": 0.25}
    for step, quantize in (("trainer", False), ("quantization_rewriter", True)):
        assert in_validation.items() <= steps[step].parameters["overrides"].items()
        assert configs.training_config(settings, quantize=quantize).train_config.validation.tile_size == 64
    # A training without validation gets none.
    assert not configs.training_config(
        load_settings(digits_settings, tiled), quantize=False
    ).train_config.HasField("validation")
    without = _steps(load_settings(digits_settings, [f"{block}.every_steps=10"]))
    assert without["example_gen"].parameters["tiles"] == {}
    assert f"{block}.tile_size" not in without["trainer"].parameters["overrides"]


def test_what_a_step_needs_and_which_checks_exist(digits_settings):
    dag = build_dag(load_settings(digits_settings))
    needed = [step.id for step in before(dag, "trainer").steps]
    assert needed == ["config_gen", "example_gen", "baseline_resolver", "data_validator"]
    assert [step.id for step in before(dag, "data_validator").steps] == needed[:-1]
    assert before(dag, "example_gen").steps == ()
    seen = set()
    for step in dag.steps:
        assert {source.step for source in step.inputs.values()} <= seen
        assert {v.name for v in step.parameters.values() if isinstance(v, FromCheck)} <= set(CHECKS)
        seen.add(step.id)


_DELAY = "graph_rewriter.quantization.delay"
SETS = [
    [],
    ["train_config.num_steps=7", "train.overrides={learning_rate: 0.5, train_config.batch_size: 3}"],
    [f"{_DELAY}=5", f"train.overrides.{_DELAY}=6"],
    [f"quantize.overrides={{{_DELAY}: 7, train_steps: 2}}"],
    [f"{_DELAY}=5", "quantize.overrides={graph_rewriter: {quantization: {delay: 1}}}"],
    ["graph_rewriter=unset", "train.overrides.graph_rewriter={quantization: {delay: 1}}"],
    ["train.overrides={'eval_config.metrics_set[+]': oid_V2_detection_metrics}"],
]


def test_what_a_step_reads_and_changes_is_the_config_that_was_checked(digits_settings, tmp_path):
    for number, sets in enumerate(SETS):
        settings = load_settings(digits_settings, sets)
        steps = _steps(settings)
        folder = str(tmp_path / f"config{number}")
        write_config(ConfigGenJob(text=steps["config_gen"].parameters["text"], pipeline_config=folder))
        expected = {"trainer": configs.training_config(settings, quantize=False)}
        expected["trainer"].ClearField("graph_rewriter")
        if "quantization_rewriter" in steps:
            expected["quantization_rewriter"] = configs.training_config(settings, quantize=True)
        for step, config in expected.items():
            assert steps[step].inputs["pipeline_config"] == FromStep("config_gen", "pipeline_config")
            assert load_config(f"{folder}/pipeline.config", steps[step].parameters["overrides"]) == config, (
                sets
            )


def test_a_text_of_a_config_stands_in_one_step_alone(digits_settings):
    plain = _steps(load_settings(digits_settings))
    texts = [(i, n, v) for i, s in plain.items() for n, v in s.parameters.items() if isinstance(v, str)]
    assert [(i, n) for i, n, v in texts if "feature_extractor" in v] == [("config_gen", "text")]
    changed = _steps(load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"]))
    assert [name for name in plain if plain[name] != changed[name]] == ["quantization_rewriter"]


def test_a_step_that_does_not_fit_its_contract_is_refused(digits_settings):
    steps = list(build_dag(load_settings(digits_settings)).steps)
    check_contracts(steps)

    def check(change):
        id_, field, key, value = change
        number = next(i for i, step in enumerate(steps) if step.id == id_)
        changed = {field: {**getattr(steps[number], field), key: value}}
        check_contracts(
            [*steps[:number], dataclasses.replace(steps[number], **changed), *steps[number + 1 :]]
        )

    cannot = "^step evaluator: .*input model cannot come from"
    unknown = r"^step evaluator: .*unknown \['more'\]"
    colour, pushed = FromResult("data_validator", "colour"), FromResult("pusher", "pushed")
    cases = [
        (("evaluator", "inputs", "model", FromStep("example_gen", "examples")), f"{cannot} example_gen"),
        (("evaluator", "inputs", "model", FromStep("pusher", "pushed_model")), f"{cannot} pusher"),
        (("evaluator", "inputs", "more", FromStep("trainer", "model")), unknown),
        (("evaluator", "parameters", "more", 1), unknown),
        (("trainer", "parameters", "stop_reasons", colour), "^step trainer: .*data_validator.colour"),
        (("trainer", "parameters", "stop_reasons", pushed), "^step trainer: .*pusher.pushed"),
    ]
    assert not not_refused(check, cases, ValueError)


def test_training_goes_on_from_the_deployed_model_and_saves_as_often_as_the_settings_say(digits_settings):
    steps = _steps(load_settings(digits_settings, ["train.warm_start=deployed"]))
    assert steps["trainer"].inputs["warm_start"] == FromStep("baseline_resolver", "baseline")
    assert steps["trainer"].parameters["warm_start_path"] == ""
    assert "warm_start" not in _steps(load_settings(digits_settings))["trainer"].inputs
    for overrides, minutes in (([], 5.0), (["train.checkpoint_minutes=0.5"], 0.5)):
        steps = _steps(load_settings(digits_settings, overrides))
        found = {name for name, step in steps.items() if step.parameters.get("checkpoint_minutes") == minutes}
        assert found == {"trainer", "quantization_rewriter"}


_KINDS = {"data_path": "STRING", "train_steps": "NUMBER_INTEGER", "learning_rate": "NUMBER_DOUBLE"}
_KINDS |= {"fast": "BOOLEAN", "tags": "LIST", "extra": "STRUCT"}
DECLARED = {n: Parameter(name=n, type=kind, required=n == "data_path") for n, kind in _KINDS.items()}


def test_texts_become_typed_values_or_are_refused():
    given = ["data_path=1", "train_steps=5", "learning_rate=1e-3", "fast=true", "tags=[1]", 'extra={"a": 1}']
    values = {"data_path": "1", "train_steps": 5, "learning_rate": 0.001, "fast": True, "tags": [1]}
    assert parse_parameters(DECLARED, given) == {**values, "extra": {"a": 1}}
    texts = [
        ("train_stepz=5", "no parameter train_stepz; did you mean train_steps?"),
        ("nothing_like_it=5", "no parameter nothing_like_it; the pipeline has .*data_path"),
        ("train_steps=5.5", "--param train_steps: expected a whole number, found '5.5'"),
        ("train_steps=true", "expected a whole number"),
        ("learning_rate=NaN", "expected a number, found 'NaN'"),
        ("fast=yes", "expected true or false"),
        ("tags={}", "expected a list, as JSON"),
        ("train_steps", "expected NAME=VALUE"),
    ]
    assert not not_refused(lambda text: parse_parameters(DECLARED, [text]), texts, ConfigError)
    assert check_parameters(DECLARED, {"data_path": "x", "learning_rate": 1}, "s.yaml")
    wrong = {"data_path": "x", "train_steps": "5"}
    values = [
        ((DECLARED, wrong), "s.yaml: train_steps: expected a whole number, found '5'"),
        ((DECLARED, {}), r"no value for data_path.*give --param data_path=VALUE"),
        (({}, {"x": 1}), "no parameter x; the pipeline has none"),
    ]
    assert not not_refused(lambda given: check_parameters(*given, "s.yaml"), values, ConfigError)


def test_every_target_is_a_field_that_a_package_declares_and_values_reach_every_step(digits_settings):
    for parameter in RUN_PARAMETERS:
        kinds = {
            job_fields(JOBS[step]).parameters[field].codec.carried_as for step, field in parameter.targets
        }
        assert len(kinds) == 1
        if kinds == {str}:
            assert [step for step, _ in parameter.targets] == [CHECKER] and parameter.name in FILLED
    declared = declared_parameters()
    assert list(declared) == [p.name for p in RUN_PARAMETERS]
    assert declared["train_steps"].type == "NUMBER_INTEGER" and declared["span"].type == "STRING"
    assert not any(p.required for p in declared.values())
    settings = load_settings(digits_settings)
    steps = [check_step(settings), *build_dag(settings).steps]
    changed = {s.id: s for s in set_parameters(steps, {"train_steps": 7, "learning_rate": 1, "span": "3"})}
    assert changed[CHECKER].parameters["train_steps"] == changed["trainer"].parameters["train_steps"] == 7
    assert type(changed["trainer"].parameters["learning_rate"]) is float
    assert changed[CHECKER].parameters["span"] == "3"
    same = set_parameters(steps, {})
    assert [s.parameters for s in same] == [dict(s.parameters) for s in steps]


def test_each_training_step_has_its_own_config_with_override_files_and_additions(digits_settings, tmp_path):
    settings = load_settings(digits_settings, ["train_config.batch_size=4", "train_config.num_steps=7"])
    trained = configs.training_config(settings, quantize=False)
    quantized = configs.training_config(settings, quantize=True)
    assert trained.train_config.batch_size == quantized.train_config.batch_size == 4
    assert trained.train_config.num_steps == 7
    assert quantized.train_config.num_steps == settings.quantize.overrides["train_config.num_steps"]
    assert quantized.HasField("graph_rewriter") and configs.fine_tune_checkpoint(settings) == ""
    field = "train_config.fine_tune_checkpoint"
    named = load_settings(digits_settings, [f"{field}=/there/x", f"{field}_version=V2"])
    assert configs.fine_tune_checkpoint(named) == "/there/x"
    files = [tmp_path / "a.config", tmp_path / "b.config"]
    files[0].write_text("train_config { batch_size: 2 num_steps: 3 }")
    files[1].write_text(
        'train_config { batch_size: 4 } eval_config { metrics_set: "coco_detection_metrics" }'
    )
    added = "eval_config.metrics_set[+]"
    overrides = [f"{added}=pascal_voc_detection_metrics", f"train.overrides.{added}=oid_V2_detection_metrics"]
    plain = load_settings(digits_settings)
    settings = load_settings(digits_settings, overrides, override_files=[str(f) for f in files])
    before = configs.training_config(plain, quantize=False)
    trained = configs.training_config(settings, quantize=False)
    assert (trained.train_config.batch_size, trained.train_config.num_steps) == (4, 3)
    metrics = ("coco_detection_metrics", "pascal_voc_detection_metrics", "oid_V2_detection_metrics")
    assert list(trained.eval_config.metrics_set) == [*before.eval_config.metrics_set, *metrics]


def test_the_shared_config_leaves_the_quantization_to_its_step_and_its_own_block(digits_settings):
    plain = load_settings(digits_settings)
    changed = load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"])
    assert "\n" not in configs.shared_config_text(plain).strip()
    assert not parse_pipeline_config(configs.shared_config_text(plain)).HasField("graph_rewriter")
    assert configs.shared_config_text(plain) == configs.shared_config_text(changed)
    assert configs.step_overrides(plain, quantize=False) == configs.step_overrides(changed, quantize=False)
    assert configs.step_overrides(plain, quantize=True) != configs.step_overrides(changed, quantize=True)
    own = "quantize.overrides={graph_rewriter: {quantization: {delay: 1}}}"
    found = configs.step_overrides(load_settings(digits_settings, [own]), quantize=True)
    assert found == {"graph_rewriter": {"quantization": {"delay": 1}}}


ZOO_MODEL = "zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"


def test_starting_from_published_weights_is_trainer_s_alone_and_imagenet_names_the_backbone(digits_settings):
    published = 'train_config.fine_tune_checkpoint="PATH_TO_BE_CONFIGURED/mobilenet_v2.ckpt-1"'
    settings = load_settings(digits_settings, [f"train.start_from={ZOO_MODEL}", published])
    train = configs.training_config(settings, quantize=False).train_config
    assert (train.fine_tune_checkpoint, train.fine_tune_checkpoint_type) == (ZOO_MODEL, "full")
    assert configs.fine_tune_checkpoint(settings) == ZOO_MODEL
    merged = apply_overrides(
        parse_pipeline_config(configs.shared_config_text(settings)),
        configs.step_overrides(settings, quantize=False),
    )
    assert merged.train_config == train
    assert not any("fine_tune" in path for path in configs.step_overrides(settings, quantize=True))

    def load(start, more):
        return load_settings(digits_settings, [f"train.start_from={start}", more])

    less = load(ZOO_MODEL, "train.overrides={train_config.fine_tune_checkpoint_type: detection}")
    assert configs.training_config(less, quantize=False).train_config.fine_tune_checkpoint_type == "detection"
    multiplier = "model.ssd.feature_extractor.depth_multiplier"
    assert configs.fine_tune_checkpoint(load("imagenet", f"{multiplier}=0.5")) == "imagenet:mobilenet_v2:0.5"
    with pytest.raises(ConfigError, match=r"depth_multiplier of 0.35, 0.5.*found 0.6"):
        configs.fine_tune_checkpoint(load("imagenet", f"{multiplier}=0.6"))


def test_a_schema_travels_as_text_once_it_is_one(digits_settings, tmp_path):
    assert configs.schema_text(load_settings(digits_settings)) == ""
    schema = tmp_path / "examples_schema.pbtxt"
    settings = load_settings(digits_settings, [f"validation.schema_file={schema}"])
    refused(ConfigError, "schema", configs.schema_text, settings)
    schema.write_text("feature { name: 'image/height' type: INT int_domain { min: 1 } }")
    assert _steps(settings)["data_validator"].parameters["schema_text"] == schema.read_text()
    for text, message in (("", "expected a type"), ("typ: INT", "typ")):
        schema.write_text(f"feature {{ name: 'image/height' {text} }}")
        assert refused(ConfigError, message, build_dag, settings).where.startswith(str(schema))


def test_a_record_holds_every_state_of_one_machine_and_of_kubeflow_as_its_word():
    for state in map(StepStatus, STEP_STATES):
        assert StepInfo(id="a", component="a", state=state).state == str(state)
    assert json.dumps([*StepStatus][:2]) == '["not run", "pending"]'
    # The names of V2beta1RuntimeState in kfp_server_api 2.17.
    for name in ("PENDING", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "CANCELING", "CANCELED"):
        assert isinstance(word_of(name), StepStatus)
    assert word_of("PAUSED") == "paused", "which is one of runs alone"
    assert word_of(None) is StepStatus.PENDING
