"""Packages: their source, file, size and submission."""

import copy
import os
import re
from pathlib import Path

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.kubeflow import submission
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.kfp_rules import LIMIT_BYTES, SAFE_BYTES, estimate_workflow
from pipeline.kubeflow.package import read_documents, read_package, step_tree
from tests.pipeline.golden import GOLDEN
from tests.pipeline.kubeflow.clients import connect, start
from tests.pipeline.kubeflow.conftest import write_package
from tests.support.cases import refused
from tests.support.compiled import compiled, documents, with_short_stack


def _steps(path):
    return tuple(step_tree(read_documents(path)[0]))


def test_a_package_tells_its_name_steps_and_parameters_and_its_digest_goes_by_content(package_path, tmp_path):
    package = read_package(package_path)
    assert package.name == "digits" and set(_steps(package.path)) == {"example-gen", "trainer", "pusher"}
    assert package.parameters["data_path"].required and not package.parameters["tags"].required
    # The steps are found in what the server gives back, too.
    spec = {"root": {"dag": {"tasks": {"a": {}}}}}
    assert step_tree(spec) == step_tree({"pipeline_spec": spec, "platform_spec": {}}) == {"a": {}}
    first = read_package(package_path).digest
    for added, same in (("\n# another comment\n", True), ("---\nplatforms: {kubernetes: {}}\n", False)):
        with open(package_path, "a", encoding="utf-8") as f:
            f.write(added)
        package = read_package(package_path)
        assert package.name == "digits" and (package.digest == first) == same
    assert read_package(write_package(tmp_path, steps=("trainer",))).digest != first


def test_a_package_that_notifies_is_uploaded_and_run_as_one_that_does_not(server, tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(compiled("notify.webhook_env=HOOK", "notify.secret=hooks"), encoding="utf-8")
    package, plain = read_package(str(path)), read_package(str(GOLDEN))
    assert package.digest != plain.digest and package.parameters == plain.parameters
    assert (package.filled, package.timed) == (plain.filled, plain.timed)
    tree = step_tree(read_documents(package.path)[0])
    assert list(tree) == ["exit-handler-1", "exit-notifier"]
    assert set(tree["exit-handler-1"]) == {*_steps(str(GOLDEN)), "notifier"}
    connection = connect(server)
    version = submission.publish(connection, package)
    assert not version.reused and submission.publish(connection, package).reused
    assert start(connection, package.path, version)


def test_tasks_come_in_the_order_of_what_they_need():
    tasks = {"a": {"dependentTasks": ["c"]}, "b": {"dependentTasks": ["a"]}}
    tasks["c"] = {"componentRef": {"name": "inner"}}
    inner = {"dag": {"tasks": {"x": {"dependentTasks": ["y"]}, "y": {}}}}
    tree = step_tree({"root": {"dag": {"tasks": tasks}}, "components": {"inner": inner}})
    assert list(tree) == ["c", "a", "b"] and list(tree["c"]) == ["y", "x"]
    circle = {"a": {"dependentTasks": ["b"]}, "b": {"dependentTasks": ["a"]}}
    assert list(step_tree({"root": {"dag": {"tasks": circle}}})) == ["a", "b"]


_SCHEMA = "schemaVersion: 2.1.0\n"
_HEAD = f"pipelineInfo: {{name: x}}\n{_SCHEMA}"
_ROOT = f"{_HEAD}root: {{}}\n"
_BAD = (
    ("name: x\n", "expected a compiled pipeline with one pipelineInfo, found none"),
    ("a: [", "not valid YAML"),
    (f"pipelineInfo: []\n{_SCHEMA}", "pipelineInfo.name: expected a value, found nothing; compile"),
    (f"pipelineInfo: x\n{_SCHEMA}", "pipelineInfo.name: expected a value, found nothing"),
    (f"pipelineInfo: {{}}\n{_SCHEMA}root: {{}}\n", "pipelineInfo.name: expected a value, found nothing"),
    (f"pipelineInfo: {{name: 3}}\n{_SCHEMA}root: {{}}\n", "found others .Failed to parse .*name.*; compile"),
    (_HEAD, "root: expected a value, found nothing"),
    (f"{_HEAD}root: null\n", "root: expected a value, found nothing"),
    (f"{_HEAD}root: {{dag: {{tasks: 5}}}}\n", "tasks must be in a dict which is 5"),
    (f"{_HEAD}root: {{dag: {{tasks: {{a: 5}}}}}}\n", "Failed to parse tasks field"),
    (
        f"{_HEAD}root: {{inputDefinitions: {{parameters: [1]}}}}\n",
        r"parameters must be in a dict which is \[1\]",
    ),
    (f"{_ROOT}components: {{a: {{dag: 3}}}}\n", "Failed to parse components field"),
    (f"{_ROOT}deploymentSpec: 1\n", "Failed to parse deploymentSpec field"),
    (f"{_ROOT}defaultPipelineRoot: [a]\n", "Failed to parse defaultPipelineRoot field"),
    (f"{_HEAD}root: {{1: 2}}\n", "expected keys that are texts, found 1; put it in quotes"),
    (f"{_ROOT}---\nplatforms: {{2: 3}}\n", "expected keys that are texts, found 2"),
    (f"{_ROOT}pipeline_spec: x\n", "found the key pipeline_spec, under which a server"),
    (f"{_ROOT}---\n{_HEAD}", "one pipelineInfo, found several"),
    ("pipelineInfo: !!int 2026-13-45\n", "expected a value of the kind int, found '2026-13-45'"),
    ("pipelineInfo: !!python/object/apply:os.system ['id']\n", "expected a plain value, found the tag"),
    (f"{_ROOT}root: {{}}\n", "the key 'root' is given twice"),
    (f"{_HEAD}root: {'[' * 90_000}", "nested at most 50 deep|not valid YAML"),
    (f"{_HEAD}root: &a {{b: *a}}\n", "expected no value that holds itself"),
    (_ROOT.replace("2.1.0", "2.0.0"), "schemaVersion 2.1.0, found 2.0.0; .*kfp 2.16 or newer"),
    (_ROOT.replace("2.1.0", "2.2.0"), "found 2.2.0; .*compile it with an older"),
)


def test_a_package_of_the_wrong_shape_a_pipe_and_a_folder_are_one_message(tmp_path, subtests):
    path = tmp_path / "p.yaml"
    for text, message in _BAD:
        path.write_text(text)
        with subtests.test(message):
            assert str(refused(ConfigError, message, read_package, str(path))).startswith(str(path))
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        refused(ConfigError, "expected a file, found no regular file", submission.is_package, str(path))
    with pytest.raises(ConfigError, match="which no file can have"), submission.open_source("/no\0file", []):
        pass


def test_aliases_and_pipelines_that_hold_themselves_are_read_and_what_never_ends_is_refused(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(f"{_HEAD}root: {{dag: {{tasks: {{a: &t {{componentRef: {{name: c}}}}, b: *t}}}}}}\n")
    assert _steps(str(path)) == ("a", "b")
    lines = ["a: &a0 [x, x]"] + [f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path.write_text(_ROOT + "\n".join(lines))
    refused(ConfigError, "at most 200,000 values, those that aliases repeat counted", read_package, str(path))
    tasks = {f"t{i}": {"componentRef": {"name": "comp-a"}} for i in range(40)}
    components = {"comp-a": {"dag": {"tasks": tasks}}}
    path = write_package(tmp_path, root={"dag": {"tasks": tasks}}, components=components)
    tree = step_tree(read_documents(path)[0])
    assert len(tree) == 40 and len(tree["t1"]["t2"]["t3"]) == 40
    # All documents are kept.
    with open(path, "a", encoding="utf-8") as f:
        f.write("---\nplatforms: {kubernetes: {}}\n")
    spec, documents = read_documents(path)
    assert spec["pipelineInfo"]["name"] == "digits" and len(documents) == 2


def _opened(*given):
    """Open and close a source; return it, and whether its file was there meanwhile."""

    def use():
        with submission.open_source(*given) as source:
            return source, os.path.exists(source.package.path)

    return with_short_stack(use)


def test_settings_are_compiled_for_as_long_as_they_are_used(digits_settings, tmp_path, package_path):
    source, there = _opened(digits_settings, ["kubeflow.experiment=mine"])
    assert source.settings.kubeflow.experiment == "mine"
    assert "train_steps" in source.package.parameters
    assert there and not os.path.exists(source.package.path)
    # The same settings compile to the same content.
    part = tmp_path / "part.config"
    part.write_text("train_config { num_steps: 4 }")
    given = ((["kubeflow.experiment=mine"],), (["train_config.num_steps=3"],), ([], [str(part)]))
    digests = [_opened(digits_settings, *one)[0].package.digest for one in given]
    assert digests[0] == source.package.digest and len(set(digests)) == 3
    with submission.open_source(package_path, []) as source:
        assert source.settings is None and source.package.path == package_path
    for option, given in (("--set", (["a=b"],)), ("--override-file", ([], ["part.config"]))):
        refused(ConfigError, f"expected no {option} for a compiled pipeline", _opened, package_path, *given)
    assert submission.is_package(package_path) and not submission.is_package(digits_settings)
    refused(ConfigError, "cannot read the file", submission.is_package, str(tmp_path / "none.yaml"))


def test_the_same_content_is_uploaded_once(server, connection, tmp_path, package_path):
    server.state.create_pipeline({"display_name": "Digits"})
    package = read_package(package_path)
    first, second = submission.publish(connection, package), submission.publish(connection, package)
    assert (first.reused, second.reused) == (False, True) and first.version_id == second.version_id
    assert first.name == f"digits-{package.digest}"
    changed = submission.publish(connection, read_package(write_package(tmp_path, steps=("trainer",))))
    assert changed.pipeline_id == first.pipeline_id and changed.version_id != first.version_id
    # A pipeline whose name differs in case is another one.
    assert [p["name"] for p in server.state.pipelines.values()] == ["Digits", "digits"]
    assert len(server.state.versions) == 2


def test_what_somebody_else_makes_at_the_same_moment_is_used(server, connection, package_path):
    state, named = server.state, {"display_name": "digits"}
    package = read_package(package_path)

    def upload():
        [pipeline_id] = state.pipelines
        with open(package_path, "rb") as f:
            state.upload_version(f"digits-{package.digest}", pipeline_id, f.read())

    server.misbehave("POST .*/pipelines", lambda: state.create_pipeline(named))
    server.misbehave("POST .*upload_version", upload)
    server.misbehave("POST .*/experiments", lambda: state.create_experiment(named))
    version = submission.publish(connection, package)
    assert version.reused
    start(connection, package_path, version)
    kept = (state.pipelines, state.versions, state.experiments, state.runs)
    assert [len(each) for each in kept] == [1, 1, 1, 1]


def test_a_run_bears_version_experiment_and_parameters(server, connection, package_path):
    version = submission.publish(connection, read_package(package_path))
    run_id = start(connection, package_path, version, service_account="robot")
    run = server.state.runs[run_id]
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version.version_id
    assert run["runtime_config"]["parameters"] == {"data_path": "/data"} and run["service_account"] == "robot"
    assert run["experiment_id"] == submission.ensure_experiment(connection, "digits")
    assert len(server.state.experiments) == 1
    # The server checks parameters, too.
    with pytest.raises(ClusterError, match="not required by pipeline: nonsense"):
        start(connection, package_path, version, parameters={"data_path": "x", "nonsense": 1})


def test_every_namespace_of_a_server_with_users_has_its_own_pipelines_and_experiments(server, package_path):
    connection = connect(server, namespace="not-sent-without-users")
    assert connection.namespace is None and start(connection, package_path)
    server.state.__init__()
    server.state.multi_user = True
    package = read_package(package_path)
    for namespace in ("team-a", "team-b"):
        connection = connect(server, namespace=namespace)
        start(connection, package_path)
    for kept in (server.state.pipelines, server.state.runs):
        assert {each["namespace"] for each in kept.values()} == {"team-a", "team-b"}
    server.state.forbidden = ("team-b",)
    with pytest.raises(ClusterError, match="403: User is not authorized to work in namespace team-b"):
        submission.publish(connection, package)


def test_a_pipeline_that_the_server_does_not_understand_is_explained(connection, tmp_path):
    package = read_package(write_package(tmp_path, fieldOfTomorrow=1))
    with pytest.raises(ClusterError, match=r"unknown template format.*newer than the server") as caught:
        submission.publish(connection, package)
    assert "github.com" not in str(caught.value)


def test_listing_goes_through_all_pages(server, connection):
    for i in range(205):
        server.state.create_experiment({"display_name": f"e{i}"})
    listed = list(submission.pages(connection, "listing", connection.client.list_experiments, "experiments"))
    assert [e.display_name for e in listed] == [f"e{i}" for i in range(205)]
    assert server.count("GET .*/experiments") == 3


def test_a_request_that_may_have_arrived_is_not_repeated(server, connection, package_path):
    version = submission.publish(connection, read_package(package_path))
    server.misbehave("POST .*/runs", "close")
    refused(ClusterError, "closed the connection", start, connection, package_path, version)
    assert server.count("POST .*/runs") == 1


def test_a_name_that_a_server_takes_is_as_long_as_is_allowed(connection, tmp_path):
    name = "a" * 110
    submission.check_names(name, "e" * 128)
    version = submission.publish(connection, read_package(write_package(tmp_path, name=name)))
    assert len(version.name) == 127 and submission.ensure_experiment(connection, "e" * 128)
    with pytest.raises(ClusterError, match=r"400: PipelineVersion\.Name length cannot exceed 127"):
        submission.publish(connection, read_package(write_package(tmp_path, name=name + "a")))
    refused(ClusterError, "the server failed", submission.ensure_experiment, connection, "e" * 129)
    for names, message in (
        ((name + "a", "e"), "pipeline's name: expected 110"),
        ((name, "é" * 65), "128 char"),
    ):
        refused(ConfigError, message, submission.check_names, *names)
    assert re.fullmatch(r"digits 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", submission.default_run_name("digits"))


@pytest.fixture(scope="module")
def measured():
    path = Path(__file__).parents[1] / "data" / "measured_pipeline.yaml"
    spec, platform = yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return spec, [platform]


def _golden(added=0):
    """Return the golden package with a longer pipeline.config."""
    spec, platform = documents()
    task = spec["root"]["dag"]["tasks"]["config-gen"]["inputs"]["parameters"]
    task["text"]["runtimeValue"]["constant"] += "x" * added
    return estimate_workflow(spec, [platform])


def _with_configs(measured, kilobytes):
    """Estimate the package with pipeline.configs of a size, repeated text of the ones that it has."""
    spec, platforms = measured
    changed = copy.deepcopy(spec)
    for task in ("trainer", "quantization-rewriter"):
        value = changed["root"]["dag"]["tasks"][task]["inputs"]["parameters"]["pipeline_config"]
        text, size = value["runtimeValue"]["constant"], kilobytes * 1024
        value["runtimeValue"]["constant"] = (text * (size // len(text) + 1))[:size]
    return estimate_workflow(changed, platforms).total


def test_a_package_that_was_measured_what_a_kilobyte_costs_and_what_nobody_knows_yet_is_counted(measured):
    """A run of it on KFP 2.17.0 had 0.65 MB of node status; Argo counts the workflow's specification too."""
    size = estimate_workflow(*measured)
    assert 0.65e6 < size.total < 0.80e6 and set(size.tasks) == set(measured[0]["root"]["dag"]["tasks"])
    assert size.total == size.frame + sum(size.tasks.values())
    sizes = [_with_configs(measured, n) for n in (5, 25)]
    assert 26 < (sizes[1] - sizes[0]) / (20 * 1024) < 33
    fits = [n for n in range(10, 20) if _with_configs(measured, n) < LIMIT_BYTES]
    assert 12 <= max(fits) <= 17 and fits == list(range(10, max(fits) + 1))
    spec, platforms = measured
    without = copy.deepcopy(spec)
    del without["root"]["dag"]["tasks"]["evaluator"]["inputs"]["artifacts"]["baseline"]
    assert estimate_workflow(without, platforms).total < estimate_workflow(spec, platforms).total - 3000
    nothing = estimate_workflow({"root": {}})
    assert nothing.tasks == {}
    # Templates, six nodes, and the 26 characters of "{\"dag\":{\"tasks\":{}}}" as three arguments.
    assert nothing.frame == 15_000 + 6 * 800 + 3 * 26


def test_the_example_is_as_large_as_on_a_server_and_a_text_costs_what_its_task_costs_more():
    before, after = _golden(), _golden(added=1024)
    # On KFP 2.17.0 with Argo 4.0.5 its Workflow had 817.7 kB with 70 nodes.
    assert before.total == pytest.approx(817_700, rel=0.05)
    assert {n for n in before.tasks if before.tasks[n] != after.tasks[n]} == {"config-gen"}
    assert 11 * 1024 <= after.total - before.total <= 13 * 1024
    # Packed, as it travels: the example leaves room for text that is four times as much and more.
    assert _golden(added=4096).total < SAFE_BYTES
