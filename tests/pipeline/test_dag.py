import dataclasses

from component_specs import ConfigGenJob
from components.config_gen.run import run as write_config
from components.runtime.config_artifact import read_pipeline_config
from detection_core.errors import ConfigError
from pipeline.dag import FromCheck, FromResult, FromStep, before, build_dag, check_contracts
from pipeline.run_checks import CHECKS
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.support.cases import refused
from tests.support.refusals import not_refused


def _steps(settings):
    return {step.id: step for step in build_dag(settings).steps}


def test_the_quantized_workflow_and_those_without_quantization_or_validation(digits_settings):
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
        expected = {"trainer": training_config(settings, quantize=False)}
        expected["trainer"].ClearField("graph_rewriter")
        if "quantization_rewriter" in steps:
            expected["quantization_rewriter"] = training_config(settings, quantize=True)
        for step, config in expected.items():
            assert steps[step].inputs["pipeline_config"] == FromStep("config_gen", "pipeline_config")
            assert read_pipeline_config(folder, steps[step].parameters["overrides"]) == config, sets


def test_a_text_of_a_config_stands_in_one_step_alone_and_a_schema_has_to_be_one(digits_settings, tmp_path):
    plain = _steps(load_settings(digits_settings))
    texts = [(i, n, v) for i, s in plain.items() for n, v in s.parameters.items() if isinstance(v, str)]
    assert [(i, n) for i, n, v in texts if "feature_extractor" in v] == [("config_gen", "text")]
    changed = _steps(load_settings(digits_settings, ["graph_rewriter.quantization.delay=5"]))
    assert [name for name in plain if plain[name] != changed[name]] == ["quantization_rewriter"]
    schema = tmp_path / "examples_schema.pbtxt"
    settings = load_settings(digits_settings, [f"validation.schema_file={schema}"])
    schema.write_text("feature { name: 'image/height' type: INT }")
    assert _steps(settings)["data_validator"].parameters["schema_text"] == schema.read_text()
    schema.write_text("feature { name: 'image/height' }")
    refused(ConfigError, "expected a type", build_dag, settings)


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
