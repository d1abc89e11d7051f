"""What kfp compiles, and its rules."""

import hashlib
import json
import re
import sys

import pytest
import yaml

from component_specs.kfp_yaml import FOLDER
from component_specs.trainer import NODES, TrainingNodes
from detection_core.errors import ConfigError, ContractError
from pipeline.cli import parser
from pipeline.dag import build_dag
from pipeline.kubeflow.kfp_backend import RUN_PARAMETERS, pipeline_name, render_pipeline
from pipeline.kubeflow.kfp_rules import check_package, estimate_workflow
from pipeline.kubeflow.package import (
    check_placeholders,
    check_schedule_time,
    filled_parameters,
    read_package,
    schedule_timed,
)
from pipeline.settings.kubeflow_settings import STEPS
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import GOLDEN, SETTINGS
from tests.pipeline.kubeflow.clients import connect
from tests.pipeline.kubeflow.conftest import write_package
from tests.pipeline.kubeflow.kfp_server import VERSIONS
from tests.pipeline.kubeflow.test_volume import VOLUME
from tests.support.cases import refused
from tests.support.compiled import documents, with_short_stack
from tests.support.compiled_rules import RULES, find_faults

PLAIN = (
    "kubeflow.schedule_time=false",
    "kubeflow.image_parameter=false",
    "quantize.enabled=false",
    "kubeflow.steps.trainer.image=gpu:1",
)
NOTIFIED = ("notify.webhook_env=HOOK", "notify.secret=hooks", "kubeflow.host=http://kfp/")
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


def test_the_command_writes_the_golden_and_a_missing_configuration_is_one_message(tmp_path, capsys):
    path = tmp_path / "new" / "pipeline.yaml"
    assert with_short_stack(parser.main, ["compile", str(SETTINGS), "-o", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert path.read_text(encoding="utf-8") == GOLDEN.read_text(encoding="utf-8"), "run `make specs`"
    missing = f"model.config={tmp_path}/none.config"
    assert parser.main(["compile", str(SETTINGS), "-o", str(tmp_path / "p.yaml"), "--set", missing]) == 2
    assert "none.config" in capsys.readouterr().err and not (tmp_path / "p.yaml").exists()


def test_edges_are_those_of_the_dag_components_those_of_the_files_and_what_users_change_is_a_parameter(spec):
    dag = build_dag(load_settings(str(SETTINGS), check_files=False))
    tasks = _tasks(spec)
    assert {s.id.replace("_", "-") for s in dag.steps} | {"run-checker"} == set(tasks)
    assert {step.id for step in dag.steps} | {"run_checker"} == set(STEPS)
    for step in dag.steps:
        wired = tasks[step.id.replace("_", "-")]["inputs"].get("artifacts", {})
        found = {n: tuple(a["taskOutputArtifact"].values()) for n, a in wired.items()}
        assert found == {n: (s.output, s.step.replace("_", "-")) for n, s in step.inputs.items()}
    # What a user may change is a parameter with type, default and description.
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert set(parameters) == {p.name for p in RUN_PARAMETERS} | {"image"}
    for parameter in parameters.values():
        assert parameter["parameterType"] and parameter["description"] and "defaultValue" in parameter
    for parameter in RUN_PARAMETERS:
        for step, field in parameter.targets:
            taken = _tasks(spec)[step.replace("_", "-")]["inputs"]["parameters"][field]
            assert taken == {"componentInputParameter": parameter.name}

    # A component of the pipeline is the one that is checked in.
    def interface(body):
        if not isinstance(body, dict):
            return body
        return {k: interface(v) for k, v in body.items() if k not in ("description", "executorLabel")}

    checked_in = yaml.safe_load((FOLDER / "evaluator.yaml").read_text(encoding="utf-8"))
    expected = interface(checked_in["components"]["comp-evaluator"])
    for name in ("evaluator", "quantized-evaluator"):
        assert interface(spec["components"][f"comp-{name}"]) == expected


def test_placeholders_want_a_run_that_is_told_its_time_and_a_parameter_that_is_filled():
    untimed = ("data.path=/data/[[ScheduledTime]]", "kubeflow.schedule_time=false")
    for message, *sets in (
        (r"kubeflow\.schedule_time: expected true, as data_path holds", *untimed),
        (r"example_gen: shards_uri: expected no placeholder", "data.shards_uri=s3://b/[[ScheduledTime]]"),
    ):
        refused(ConfigError, message, render_pipeline, load_settings(str(SETTINGS), sets, check_files=False))
    check_placeholders({"data_path": "x-[[ScheduledTime.2006-01-02]]", "n": 1, "c": "[[1]]"}, FILLED, "s")
    for name, text, message in (
        ("image", "app:[[ScheduledTime]]", r"s: image: expected no placeholder.* in data_path, push_dest"),
        ("data_path", "[[Index]]", r"s: data_path: \[\[Index\]\] cannot be filled"),
        ("data_path", "[[ScheduleTime]]", r"did you mean \[\[ScheduledTime\]\]\?"),
    ):
        refused(ConfigError, message, check_placeholders, {name: text}, FILLED, "s")


def test_every_step_runs_the_image_of_the_run_without_root_and_only_the_checks_are_never_cached(spec):
    # The rest of the golden is what it was: the first test compares it whole.
    tasks, kubernetes = _tasks(spec), _executors(documents()[1])
    uncached = [name for name, task in tasks.items() if not task.get("cachingOptions", {}).get("enableCache")]
    assert uncached == ["run-checker"] and set(kubernetes) == set(spec["deploymentSpec"]["executors"])
    assert all(e["securityContext"] == {"runAsNonRoot": True} for e in kubernetes.values())
    assert set(_images(spec).values()) == {"{{$.inputs.parameters['pipelinechannel--image']}}"}
    for task in tasks.values():
        assert task["inputs"]["parameters"]["pipelinechannel--image"] == {"componentInputParameter": "image"}


def test_images_secrets_config_maps_and_the_rest_of_the_settings_reach_the_package():
    plain = documents(*PLAIN)[0]
    assert "image" not in plain["root"]["inputDefinitions"]["parameters"]
    images = _images(plain)
    assert images.pop("exec-trainer") == "gpu:1" and set(images.values()) == {"detflow:0.1.0"}
    assert "pipeline_job_schedule_time_utc" not in str(plain)
    assert not {"quantization-rewriter", "quantized-evaluator"} & set(_tasks(plain))
    spec, platforms = documents(*RICH)
    pusher = _executors(platforms)["exec-pusher"]
    assert pusher["secretAsEnv"][0]["keyToEnv"] == [{"envVar": "AWS_SECRET_ACCESS_KEY", "secretKey": "key"}]
    assert pusher["secretAsEnv"][0]["secretName"] == "s3"
    assert pusher["secretAsVolume"][0]["mountPath"] == "/tls"
    assert pusher["configMapAsEnv"][0]["keyToEnv"][0]["envVar"] == "AWS_REGION"
    assert pusher["configMapAsVolume"][0]["mountPath"] == "/m"
    assert pusher["nodeSelector"]["labels"] == {"disk": "ssd"}
    assert pusher["imagePullSecret"][0]["secretName"] == "registry" and pusher["imagePullPolicy"] == "Always"
    env = spec["deploymentSpec"]["executors"]["exec-pusher"]["container"]["env"]
    assert env == [{"name": "A", "value": "b"}]
    tasks = _tasks(spec)
    assert "enableCache" not in tasks["pusher"].get("cachingOptions", {})
    assert spec["defaultPipelineRoot"] == "gs://bucket/root" and spec["pipelineInfo"]["name"] == "my-digits"
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert parameters["work_dir"]["defaultValue"] == "gs://bucket/work"
    assert parameters["data_path"]["defaultValue"] == "/data/[[ScheduledTime]]"
    images = _images(spec)
    assert images.pop("exec-trainer") == "gpu:1" and "gpu:1" not in images.values()
    # Training continues from the deployed model.
    source = tasks["trainer"]["inputs"]["artifacts"]["warm_start"]["taskOutputArtifact"]
    assert source == {"outputArtifactKey": "baseline", "producerTask": "baseline-resolver"}


def test_a_training_on_nodes_is_told_to_its_step_whose_pod_only_waits():
    resources = "cpu: 4, memory: 8Gi, memory_limit: 16Gi, gpu: 1"
    nodes = "nodes: 3, job_kind: TFJob, job_labels: {kueue.x-k8s.io/queue-name: gpus}"
    changes = ("kubeflow.work_dir=/work", f"kubeflow.steps.trainer={{{resources}, {nodes}}}")
    container = documents(*changes)[0]["deploymentSpec"]["executors"]["exec-trainer"]["container"]
    assert "resources" not in container
    (variable,) = [e for e in container["env"] if e["name"] == NODES]
    assert TrainingNodes.from_text(variable["value"]) == TrainingNodes(
        nodes=3,
        kind="TFJob",
        labels={"kueue.x-k8s.io/queue-name": "gpus"},
        resources={
            "requests": {"cpu": "4", "memory": "8Gi"},
            "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"},
        },
    )
    alone = documents("kubeflow.work_dir=/work", f"kubeflow.steps.trainer={{{resources}}}")[0]
    plain = alone["deploymentSpec"]["executors"]["exec-trainer"]["container"]
    assert "resources" in plain and container["args"] == plain["args"], "the cache key stays"


def _outside(value):
    """Give the pipeline's parameters their names outside of a group, where they have others."""
    text = json.dumps(value, sort_keys=True)
    return json.loads(re.sub(r'(?<="componentInputParameter": ")pipelinechannel--', "", text))


def test_notifications_are_around_the_same_tasks_and_after_pusher_and_hold_no_address():
    plain, (spec, platforms) = documents()[0], documents(*NOTIFIED)
    root = _tasks(spec)
    assert set(root) == {"exit-handler-1", "exit-notifier"}
    ends = root["exit-notifier"]
    assert ends["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert ends["inputs"]["parameters"]["status"] == {"taskFinalStatus": {"producerTask": "exit-handler-1"}}
    inner = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    notifier = inner.pop("notifier")
    assert _outside(inner) == _tasks(plain), "each other task is what it is without notifications"
    assert spec["root"]["inputDefinitions"] == plain["root"]["inputDefinitions"]
    assert set(notifier["dependentTasks"]) == {"evaluator", "pusher"}
    for task in (ends, notifier):
        assert not task["cachingOptions"].get("enableCache")
        values = {
            n: p.get("runtimeValue", {}).get("constant") for n, p in task["inputs"]["parameters"].items()
        }
        assert values["run_id"] == "{{$.pipeline_job_uuid}}"
        assert json.loads(values["about"]) == {
            "notify": {"webhook_env": "HOOK", "kind": "slack", "events": ["failed", "refused", "published"]},
            "pipeline": "digits",
            "link": "http://kfp/#/runs/details/",
        }
    for name in ("exec-exit-notifier", "exec-notifier"):
        (secret,) = _executors(platforms)[name]["secretAsEnv"]
        assert secret["secretName"] == "hooks" and secret["optional"] is True
        assert secret["keyToEnv"] == [{"envVar": "HOOK", "secretKey": "HOOK"}]
        assert spec["deploymentSpec"]["executors"][name]["container"]["image"] in _images(plain).values()
    assert str(platforms).count("'hooks'") == 2 * str(_executors(platforms)["exec-notifier"]).count("'hooks'")


def test_placeholders_are_found_and_sizes_estimated_inside_a_group_as_outside():
    plain, (spec, _) = documents(), documents(*NOTIFIED)
    assert filled_parameters(spec) == filled_parameters({"pipeline_spec": spec}) == FILLED
    spec["root"]["inputDefinitions"]["parameters"]["data_path"]["defaultValue"] = "/d/[[ScheduledTime]]"
    assert schedule_timed(spec) == {"data_path"}
    inner = spec["components"]["comp-exit-handler-1"]["dag"]["tasks"]
    inner["run-checker"]["inputs"]["parameters"]["request"]["runtimeValue"]["constant"] = "[[ScheduledTime]]"
    assert schedule_timed(spec) == {"data_path", ""}
    inner["evaluator"]["inputs"]["parameters"]["thresholds"] = {
        "componentInputParameter": "pipelinechannel--thresholds"
    }
    assert filled_parameters(spec) == FILLED - {"thresholds"}
    inside, outside = (estimate_workflow(s, [p]).tasks for s, p in (documents(*NOTIFIED), plain))
    for name, size in outside.items():
        assert size <= inside[name] <= 1.05 * size + 1000, name
    # A component that contains itself ends, too.
    inner["run-checker"]["componentRef"]["name"] = "comp-exit-handler-1"
    assert filled_parameters(spec) <= FILLED


def test_names_are_those_that_a_server_takes_and_a_missing_kfp_is_one_message(monkeypatch):
    assert pipeline_name("My_Pipeline-2") == "my-pipeline-2"
    assert re.fullmatch("[a-z0-9][a-z0-9-]*", pipeline_name("__x__"))
    monkeypatch.setitem(sys.modules, "kfp.kubernetes", None)
    with pytest.raises(ConfigError, match=r"found no kfp.kubernetes; .*pip install 'detflow\[cluster\]'"):
        render_pipeline(load_settings(str(SETTINGS), check_files=False))


def test_the_example_of_a_cluster_quantizes_as_the_digits_example_does():
    digits = SETTINGS.parents[1] / "digits" / "settings.yaml"
    here, there = (load_settings(str(path), check_files=False) for path in (SETTINGS, digits))
    assert here.quantize == there.quantize and here.quantize.overrides["train_config.num_steps"] == 150


def _render_with_paths(folder, names):
    """Compile the example with a pipeline.config that lists files; the size of its text comes first."""
    text = (SETTINGS.parents[1] / "digits" / "pipeline.config").read_text(encoding="utf-8")
    paths = "".join(f'    input_path: "{name}"\n' for name in names)
    config = folder / "pipeline.config"
    config.write_text(f"{text}\ntrain_input_reader {{ tf_record_input_reader {{\n{paths} }} }}\n")
    settings = load_settings(str(SETTINGS), [f"model.config={config}"], check_files=False)
    yield config.stat().st_size
    yield with_short_stack(render_pipeline, settings)


def test_a_pipeline_config_of_any_likely_length_fits_and_too_long_texts_are_refused(tmp_path):
    names = [f"/data/shards/train-{i:05d}-of-02000" for i in range(2000)]
    size, text = _render_with_paths(tmp_path, names)
    assert size > 90_000 > len(text)
    names = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(900)]
    rendering = _render_with_paths(tmp_path, names)
    assert next(rendering) < 90_000
    refused(ContractError, r"Workflow of a run would reach .* \(config-gen \d{3}, ", next, rendering)
    # 30 KB in two steps pass as arguments of a program; Argo would compress the record of the run.
    spec, _ = documents()
    for task in ("trainer", "quantization-rewriter"):
        parameters = spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]
        parameters["overrides"] = {"runtimeValue": {"constant": "x" * 30_000}}
    message = str(refused(ContractError, "", check_package, yaml.safe_dump(spec)))
    assert re.search(r"Workflow of a run would reach 1\d\d\d kB, and beyond 944 kB", message)
    assert re.search(r"11 tasks \(quantization-rewriter \d{3}, trainer \d{3}, pusher \d+", message)
    assert "they are one argument" not in message


_EVALUATOR = "components comp-evaluator"
_REPORT = f"{_EVALUATOR} outputDefinitions artifacts report"
_MODEL = f"{_EVALUATOR} inputDefinitions artifacts model"
_EXECUTOR = "deploymentSpec executors exec-evaluator"
_SPLIT = "root dag tasks evaluator inputs parameters split"

# (where, what is put there; None removes it, part of the message)
_BAD = [
    ("components evaluator", {}, "the component 'evaluator' does not begin with comp-"),
    (f"{_EVALUATOR} inputDefinitions parameters split parameterType", None, "has no parameterType"),
    (f"{_REPORT} artifactType", {"schemaTitle": "tfx.Examples"}, "has the type 'tfx.Examples'"),
    (f"{_MODEL} artifactType", {"instanceSchema": "title: Model"}, "has the type ''"),
    (_EXECUTOR, {"resolver": {}}, "is of the kind resolver"),
    (f"{_EXECUTOR} container command", None, "has no command"),
    (f"{_EXECUTOR} container image", None, "has no image"),
    (f"{_EXECUTOR} container lifecycle", {"preCacheCheck": {}}, "has a lifecycle hook"),
    (f"{_EXECUTOR} container args", ['{"IfPresent": {}}'], "begins with IfPresent"),
    (f"{_EXECUTOR} container args", ["a {{workflow.name}}"], "which begins a placeholder"),
    (f"{_EXECUTOR} container args", ["x" * 200_000], "is longer than 131072 bytes"),
]
_REFUSED = [
    ("schemaVersion", "2.0.0", "schemaVersion is '2.0.0'"),
    ("pipelineInfo name", "My_Pipeline", "the pipeline's name 'My_Pipeline'"),
    ("pipelineInfo name", "a" * 111, "hyphens, 110 at most"),
    (_SPLIT, {"runtimeValue": {"constant": "x" * 70_000}}, "they are one argument"),
    (_SPLIT, {"runtimeValue": {"constant": "{{x}}"}}, "a value given to evaluator in root holds"),
]


def _changed(where, value):
    spec, _ = documents()
    *path, last = where.split()
    node = spec
    for part in path:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return spec


def test_a_good_package_and_one_at_the_limits_pass_and_a_bad_one_is_refused(subtests):
    check_package(GOLDEN.read_text(encoding="utf-8"))
    for settings in ((), PLAIN, RICH, VOLUME):
        assert find_faults(documents(*settings)[0]) == []
    check_package(yaml.safe_dump(_changed("pipelineInfo name", "a" * 110)))
    assert find_faults(_changed(f"{_EXECUTOR} container args", ["x" * 131_000])) == []
    good, _ = documents()
    executors = {"exec-trainer": {"activeDeadlineSeconds": "60", "deadline": 3}}
    kubernetes = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    unknown = (
        (r'PipelineSpec: .*"speed"', _changed("root speed", 3)),
        (r'PlatformSpec: .*"speed"', good, {"platforms": {"kubernetes": {}}, "speed": 3}),
        (r'exec-trainer for Kubernetes: .*"deadline"', good, kubernetes),
    )
    bad = [(re.escape(message), _changed(where, value)) for where, value, message in _REFUSED]
    for message, *package in (*bad, *unknown):
        with subtests.test(message):
            refused(ContractError, message, check_package, yaml.safe_dump_all(package))


def test_what_no_server_takes_of_a_compiler_is_told_by_its_rule(subtests):
    broken = set()
    for where, value, message in _BAD:
        with subtests.test(message):
            spec = _changed(where, value)
            (fault,) = find_faults(spec)
            assert message in fault
            broken |= {rule for rule in RULES if list(rule(spec))}
    assert broken == set(RULES), "every rule has a bad package"


FILLED = {"data_path", "span", "thresholds", "push_destination", "work_dir"}


def _parameters(spec, task="run-checker"):
    return spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]


def test_what_run_checker_fills_is_read_from_the_package(spec, tmp_path):
    assert filled_parameters(spec) == FILLED == read_package(str(GOLDEN)).filled
    assert filled_parameters({"pipeline_spec": spec, "platform_spec": {}}) == FILLED
    # A text that reaches a step beside RunChecker is not filled, nor is anything in somebody else's pipeline.
    _parameters(spec, "evaluator")["thresholds"] = {"componentInputParameter": "thresholds"}
    assert filled_parameters(spec) == FILLED - {"thresholds"}
    assert read_package(write_package(tmp_path, fills=False)).filled == frozenset()
    # Checks without a time fill nothing.
    del _parameters(spec)["scheduled_time"]
    assert filled_parameters(spec) == frozenset()
    with pytest.raises(ConfigError, match=r"s\.yaml: a: expected no placeholder.*fills them in no parameter"):
        check_placeholders({"a": "[[ScheduledTime]]"}, filled_parameters(spec), "s.yaml")


def test_a_default_or_a_constant_that_asks_for_the_scheduled_time_is_found(spec):
    assert schedule_timed(spec) == frozenset()
    spec["root"]["inputDefinitions"]["parameters"]["data_path"]["defaultValue"] = "/d/[[ScheduledTime]]"
    assert schedule_timed(spec) == {"data_path"}
    _parameters(spec)["request"] = {"runtimeValue": {"constant": "[[ScheduledTime.2006]]"}}
    assert schedule_timed({"pipeline_spec": spec}) == {"data_path", ""}


def test_the_scheduled_time_is_refused_for_servers_that_never_set_it(server):
    for version in ("2.16.0", *VERSIONS, "master"):
        server.version = version
        connection = connect(server)
        check_schedule_time(connection, {"data_path": "[[CurrentTime]]"}, (), "s.yaml")
        check_schedule_time(connection, {"data_path": "/d"}, {"data_path"}, "s.yaml")
        for values, timed in (({"data_path": "[[ScheduledTime]]"}, ()), ({}, {"data_path"})):
            if not version.startswith("2.16"):
                check_schedule_time(connection, values, timed, "s.yaml")
                continue
            expected = "s.yaml: data_path: expected a server 2.17 or newer for .*"
            with pytest.raises(ConfigError, match=f"{expected}found {version}, which gives no run its time"):
                check_schedule_time(connection, values, timed, "s.yaml")
