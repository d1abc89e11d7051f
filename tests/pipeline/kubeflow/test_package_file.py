import os

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.package import read_package, step_tree
from pipeline.kubeflow.package_file import read_documents
from pipeline.kubeflow.source import is_package, open_source
from tests.pipeline.kubeflow.conftest import write_package

_SCHEMA = "schemaVersion: 2.1.0\n"
_HEAD = f"pipelineInfo: {{name: x}}\n{_SCHEMA}"
_ROOT = f"{_HEAD}root: {{}}\n"
_BAD = (
    ("name: x\n", "expected a compiled pipeline with one pipelineInfo, found none"),
    ("a: [", "not valid YAML"),
    (f"pipelineInfo: []\n{_SCHEMA}", r"pipelineInfo: expected a mapping, found \[\]; compile"),
    (f"pipelineInfo: x\n{_SCHEMA}", "pipelineInfo: expected a mapping, found 'x'"),
    (f"pipelineInfo: {{}}\n{_SCHEMA}root: {{}}\n", "pipelineInfo.name: expected a text, found nothing"),
    (f"pipelineInfo: {{name: 3}}\n{_SCHEMA}root: {{}}\n", "pipelineInfo.name: expected a text, found 3"),
    (_HEAD, "root: expected a mapping, found nothing"),
    (f"{_HEAD}root: []\n", r"root: expected a mapping, found \[\]"),
    (f"{_HEAD}root: null\n", "root: expected a mapping, found nothing"),
    (f"{_HEAD}root: {{dag: {{tasks: 5}}}}\n", "root.dag.tasks: expected a mapping, found 5"),
    (f"{_HEAD}root: {{dag: {{tasks: {{a: 5}}}}}}\n", "root.dag.tasks.a: expected a mapping, found 5"),
    (f"{_HEAD}root: {{inputDefinitions: {{parameters: [1]}}}}\n", r"parameters: .* mapping, found \[1\]"),
    (f"{_ROOT}components: {{a: {{dag: [x]}}}}\n", r"components.a.dag: expected a mapping"),
    (f"{_ROOT}deploymentSpec: 1\n", "deploymentSpec: expected a mapping, found 1"),
    (f"{_ROOT}defaultPipelineRoot: [a]\n", r"defaultPipelineRoot: expected a text, found \['a'\]"),
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


def test_a_package_of_the_wrong_shape_is_one_message(tmp_path, subtests):
    path = tmp_path / "p.yaml"
    for text, message in _BAD:
        path.write_text(text)
        with subtests.test(message):
            with pytest.raises(ConfigError, match=message) as caught:
                read_package(str(path))
            assert str(caught.value).startswith(str(path))


def test_aliases_are_read_and_those_that_unfold_without_end_are_refused(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(f"{_HEAD}root: {{dag: {{tasks: {{a: &t {{componentRef: {{name: c}}}}, b: *t}}}}}}\n")
    assert read_package(str(path)).steps == ("a", "b")
    lines = ["a: &a0 [x, x]"] + [f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path.write_text(_ROOT + "\n".join(lines))
    with pytest.raises(ConfigError, match="at most 200,000 values, those that aliases repeat counted"):
        read_package(str(path))


def test_a_pipe_and_a_folder_are_no_packages(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="expected a file, found no regular file"):
            is_package(str(path))
    with pytest.raises(ConfigError, match="which no file can have"), open_source("/no\0file", []):
        pass


def test_a_pipeline_that_holds_itself_many_times_over_is_read_at_once(tmp_path):
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
