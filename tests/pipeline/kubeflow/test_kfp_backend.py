"""What the cluster example compiles to, and which settings change it how."""

import hashlib
import re
import sys

import pytest
import yaml

from component_specs.kfp_yaml import FOLDER
from detection_core.errors import ConfigError, ContractError
from pipeline.cli import parser
from pipeline.dag import build_dag
from pipeline.kubeflow.kfp_backend import RUN_PARAMETERS, pipeline_name, render_pipeline
from pipeline.settings.kubeflow_settings import STEPS
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import GOLDEN, SETTINGS
from tests.support.compiled import documents, with_short_stack

PLAIN = (
    "kubeflow.schedule_time=false",
    "kubeflow.image_parameter=false",
    "quantize.enabled=false",
    "kubeflow.steps.trainer.image=gpu:1",
)
RICH = (
    "kubeflow.steps={trainer: {image: 'gpu:1'}, "
    "pusher: {secret_env: {s3: {key: AWS_SECRET_ACCESS_KEY}}, secret_volumes: {tls: /tls}, "
    "config_map_env: {c: {region: AWS_REGION}}, config_map_volumes: {m: /m}, env: {A: b}, "
    "node_selector: {disk: ssd}, caching: false}}",
    "kubeflow.image_pull_secrets=[registry]",
    "kubeflow.image_pull_policy=Always",
    "kubeflow.work_dir=gs://bucket/work",
    "kubeflow.pipeline_root=gs://bucket/root",
    "name=My_Digits",
    "data.path=/data/[[ScheduledTime]]",
    "train.warm_start=deployed",
)


@pytest.fixture
def spec():
    return documents()[0]


def _executors(platforms):
    return platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def _tasks(spec):
    return spec["root"]["dag"]["tasks"]


def _images(spec):
    executors = spec["deploymentSpec"]["executors"]
    return {name: executor["container"]["image"] for name, executor in executors.items()}


def test_the_command_writes_the_golden(tmp_path, capsys):
    path = tmp_path / "new" / "pipeline.yaml"
    assert with_short_stack(parser.main, ["compile", str(SETTINGS), "-o", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert path.read_text(encoding="utf-8") == GOLDEN.read_text(encoding="utf-8"), "run `make specs`"


def test_every_step_of_the_dag_is_a_task_with_its_edges(spec):
    dag = build_dag(load_settings(str(SETTINGS), check_files=False))
    tasks = _tasks(spec)
    assert {s.id.replace("_", "-") for s in dag.steps} | {"run-checker"} == set(tasks)
    assert {step.id for step in dag.steps} | {"run_checker"} == set(STEPS)
    for step in dag.steps:
        wired = tasks[step.id.replace("_", "-")]["inputs"].get("artifacts", {})
        found = {n: tuple(a["taskOutputArtifact"].values()) for n, a in wired.items()}
        assert found == {n: (s.output, s.step.replace("_", "-")) for n, s in step.inputs.items()}


def test_a_component_of_the_pipeline_is_the_one_that_is_checked_in(spec):
    def interface(body):
        if not isinstance(body, dict):
            return body
        return {k: interface(v) for k, v in body.items() if k not in ("description", "executorLabel")}

    checked_in = yaml.safe_load((FOLDER / "evaluator.yaml").read_text(encoding="utf-8"))
    expected = interface(checked_in["components"]["comp-evaluator"])
    for name in ("evaluator", "quantized-evaluator"):
        assert interface(spec["components"][f"comp-{name}"]) == expected


def test_what_a_user_may_change_is_a_parameter_with_type_default_and_description(spec):
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert set(parameters) == {p.name for p in RUN_PARAMETERS} | {"image"}
    for parameter in parameters.values():
        assert parameter["parameterType"] and parameter["description"] and "defaultValue" in parameter
    for parameter in RUN_PARAMETERS:
        for step, field in parameter.targets:
            taken = _tasks(spec)[step.replace("_", "-")]["inputs"]["parameters"][field]
            assert taken == {"componentInputParameter": parameter.name}


def test_placeholders_in_the_settings_want_a_run_that_is_told_its_time():
    untimed = ("data.path=/data/[[ScheduledTime]]", "kubeflow.schedule_time=false")
    for message, *sets in (
        (r"kubeflow\.schedule_time: expected true, as data_path holds", *untimed),
        (r"example_gen: shards_uri: expected no placeholder", "data.shards_uri=s3://b/[[ScheduledTime]]"),
    ):
        with pytest.raises(ConfigError, match=message):
            render_pipeline(load_settings(str(SETTINGS), sets, check_files=False))


def test_every_step_runs_the_image_of_the_run_without_root_and_only_the_checks_are_never_cached(spec):
    # The rest of the golden is what it was: the first test compares it whole.
    tasks, kubernetes = _tasks(spec), _executors(documents()[1])
    uncached = [name for name, task in tasks.items() if not task.get("cachingOptions", {}).get("enableCache")]
    assert uncached == ["run-checker"]
    assert set(kubernetes) == set(spec["deploymentSpec"]["executors"])
    assert all(e["securityContext"] == {"runAsNonRoot": True} for e in kubernetes.values())
    assert set(_images(spec).values()) == {"{{$.inputs.parameters['pipelinechannel--image']}}"}
    for task in tasks.values():
        given = task["inputs"]["parameters"]["pipelinechannel--image"]
        assert given == {"componentInputParameter": "image"}


def test_a_fixed_image_no_time_and_no_quantization():
    plain = documents(*PLAIN)[0]
    assert "image" not in plain["root"]["inputDefinitions"]["parameters"]
    images = _images(plain)
    assert images.pop("exec-trainer") == "gpu:1" and set(images.values()) == {"detflow:0.1.0"}
    assert "pipeline_job_schedule_time_utc" not in str(plain)
    assert not {"quantization-rewriter", "quantized-evaluator"} & set(_tasks(plain))


def test_secrets_config_maps_and_the_rest():
    spec, platforms = documents(*RICH)
    pusher = _executors(platforms)["exec-pusher"]
    assert pusher["secretAsEnv"][0]["keyToEnv"] == [{"envVar": "AWS_SECRET_ACCESS_KEY", "secretKey": "key"}]
    assert pusher["secretAsEnv"][0]["secretName"] == "s3"
    assert pusher["secretAsVolume"][0]["mountPath"] == "/tls"
    assert pusher["configMapAsEnv"][0]["keyToEnv"][0]["envVar"] == "AWS_REGION"
    assert pusher["configMapAsVolume"][0]["mountPath"] == "/m"
    assert pusher["nodeSelector"]["labels"] == {"disk": "ssd"}
    assert pusher["imagePullSecret"][0]["secretName"] == "registry"
    assert pusher["imagePullPolicy"] == "Always"
    env = spec["deploymentSpec"]["executors"]["exec-pusher"]["container"]["env"]
    assert env == [{"name": "A", "value": "b"}]
    tasks = _tasks(spec)
    assert "enableCache" not in tasks["pusher"].get("cachingOptions", {})
    assert spec["defaultPipelineRoot"] == "gs://bucket/root"
    assert spec["pipelineInfo"]["name"] == "my-digits"
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert parameters["work_dir"]["defaultValue"] == "gs://bucket/work"
    assert parameters["data_path"]["defaultValue"] == "/data/[[ScheduledTime]]"
    images = _images(spec)
    assert images.pop("exec-trainer") == "gpu:1" and "gpu:1" not in images.values()
    # Training continues from the deployed model.
    source = tasks["trainer"]["inputs"]["artifacts"]["warm_start"]["taskOutputArtifact"]
    assert source == {"outputArtifactKey": "baseline", "producerTask": "baseline-resolver"}


def test_names_are_those_that_a_server_takes_and_a_missing_kfp_is_one_message(monkeypatch):
    assert pipeline_name("My_Pipeline-2") == "my-pipeline-2"
    assert re.fullmatch("[a-z0-9][a-z0-9-]*", pipeline_name("__x__"))
    monkeypatch.setitem(sys.modules, "kfp.kubernetes", None)
    with pytest.raises(ConfigError, match=r"found no kfp.kubernetes; .*pip install 'detflow\[cluster\]'"):
        render_pipeline(load_settings(str(SETTINGS), check_files=False))


def test_a_missing_configuration_is_one_message(tmp_path, capsys):
    missing = f"model.config={tmp_path}/none.config"
    assert parser.main(["compile", str(SETTINGS), "-o", str(tmp_path / "p.yaml"), "--set", missing]) == 2
    assert "none.config" in capsys.readouterr().err and not (tmp_path / "p.yaml").exists()


def test_the_example_of_a_cluster_quantizes_as_the_digits_example_does():
    digits = SETTINGS.parents[1] / "digits" / "settings.yaml"
    here, there = (load_settings(str(path), check_files=False) for path in (SETTINGS, digits))
    assert here.quantize == there.quantize
    assert here.quantize.overrides["train_config.num_steps"] == 150


def _render_with_paths(folder, names):
    """Compile the example with a pipeline.config that lists files; the size of its text comes first."""
    text = (SETTINGS.parents[1] / "digits" / "pipeline.config").read_text(encoding="utf-8")
    paths = "".join(f'    input_path: "{name}"\n' for name in names)
    config = folder / "pipeline.config"
    config.write_text(f"{text}\ntrain_input_reader {{ tf_record_input_reader {{\n{paths} }} }}\n")
    settings = load_settings(str(SETTINGS), [f"model.config={config}"], check_files=False)
    yield config.stat().st_size
    yield with_short_stack(render_pipeline, settings)


def test_a_pipeline_config_of_any_likely_length_fits_and_one_that_is_too_long_is_refused(tmp_path):
    names = [f"/data/shards/train-{i:05d}-of-02000" for i in range(2000)]
    size, text = _render_with_paths(tmp_path, names)
    assert size > 90_000 > len(text)
    names = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(900)]
    rendering = _render_with_paths(tmp_path, names)
    assert next(rendering) < 90_000
    with pytest.raises(ContractError, match=r"Workflow of a run would reach .* \(config-gen \d{3}, "):
        next(rendering)
