from __future__ import annotations

import os
import time

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.kubeflow.package import read_package, step_tree
from pipeline.kubeflow.package_file import read_documents
from pipeline.kubeflow.source import is_package, open_source
from tests.pipeline.kubeflow.conftest import write_package

_HEAD = "pipelineInfo: {name: x}\nschemaVersion: 2.1.0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pipelineInfo: []\nschemaVersion: 2.1.0\n",
            r"pipelineInfo: expected a mapping, found \[\]; compile",
        ),
        ("pipelineInfo: x\nschemaVersion: 2.1.0\n", "pipelineInfo: expected a mapping, found 'x'"),
        (
            "pipelineInfo: {}\nschemaVersion: 2.1.0\nroot: {}\n",
            "pipelineInfo.name: expected a text, found nothing",
        ),
        (
            "pipelineInfo: {name: 3}\nschemaVersion: 2.1.0\nroot: {}\n",
            "pipelineInfo.name: expected a text, found 3",
        ),
        (_HEAD, "root: expected a mapping, found nothing"),
        (_HEAD + "root: []\n", r"root: expected a mapping, found \[\]"),
        (_HEAD + "root: null\n", "root: expected a mapping, found nothing"),
        (_HEAD + "root: {dag: {tasks: 5}}\n", "root.dag.tasks: expected a mapping, found 5"),
        (_HEAD + "root: {dag: {tasks: {a: 5}}}\n", "root.dag.tasks.a: expected a mapping, found 5"),
        (
            _HEAD + "root: {inputDefinitions: {parameters: [1]}}\n",
            r"root.inputDefinitions.parameters: expected a mapping, found \[1\]",
        ),
        (_HEAD + "root: {}\ncomponents: {a: {dag: [x]}}\n", r"components.a.dag: expected a mapping"),
        (_HEAD + "root: {}\ndeploymentSpec: 1\n", "deploymentSpec: expected a mapping, found 1"),
        (
            _HEAD + "root: {}\ndefaultPipelineRoot: [a]\n",
            r"defaultPipelineRoot: expected a text, found \['a'\]",
        ),
        (_HEAD + "root: {1: 2}\n", "expected keys that are texts, found 1; put it in quotes"),
        (_HEAD + "root: {}\n---\nplatforms: {2: 3}\n", "expected keys that are texts, found 2"),
        (_HEAD + "root: {}\npipeline_spec: x\n", "found the key pipeline_spec, under which a server"),
        (_HEAD + "root: {}\n---\n" + _HEAD, "one pipelineInfo, found several"),
        ("pipelineInfo: !!int 2026-13-45\n", "expected a value of the kind int, found '2026-13-45'"),
        ("pipelineInfo: !!python/object/apply:os.system ['id']\n", "expected a plain value, found the tag"),
        (_HEAD + "root: {}\nroot: {}\n", "the key 'root' is given twice"),
        (_HEAD + "root: " + "[" * 90_000, "nested at most 50 deep|not valid YAML"),
        (_HEAD + "root: &a {b: *a}\n", "expected no value that holds itself"),
    ],
)
def test_a_package_of_the_wrong_shape_is_one_message(tmp_path, text, message):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_package(str(path))
    assert str(caught.value).startswith(str(path))


def test_aliases_that_unfold_without_end_are_refused(tmp_path):
    lines = ["a: &a0 [x, x]"] + [f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path = tmp_path / "p.yaml"
    path.write_text(_HEAD + "root: {}\n" + "\n".join(lines))
    begun = time.monotonic()
    with pytest.raises(ConfigError, match="at most 200,000 values, those that aliases repeat counted"):
        read_package(str(path))
    assert time.monotonic() - begun < 5


def test_aliases_within_measure_are_read(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(_HEAD + "root: {dag: {tasks: {a: &t {componentRef: {name: c}}, b: *t}}}\n")
    assert read_package(str(path)).steps == ("a", "b")


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


def test_all_documents_are_kept(package_path):
    with open(package_path, "a", encoding="utf-8") as f:
        f.write("---\n" + yaml.safe_dump({"platforms": {"kubernetes": {}}}))
    spec, documents = read_documents(package_path)
    assert spec["pipelineInfo"]["name"] == "digits" and len(documents) == 2


@pytest.mark.parametrize(
    ("version", "remedy"), [("2.0.0", "kfp 2.16 or newer"), ("2.2.0", "compile it with an older one")]
)
def test_another_schema_says_in_which_direction_to_go(tmp_path, version, remedy):
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"pipelineInfo: {{name: x}}\nschemaVersion: {version}\nroot: {{}}\n")
    with pytest.raises(ConfigError, match=f"expected schemaVersion 2.1.0, found {version}; .*{remedy}"):
        read_documents(str(path))
