"""What a compiled package tells."""

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.package import read_package, step_names, step_tree
from tests.pipeline.kubeflow.conftest import write_package


def test_a_package_tells_its_name_steps_and_parameters(package_path):
    package = read_package(package_path)
    assert package.name == "digits"
    assert set(package.steps) == {"example-gen", "trainer", "pusher"}
    assert package.parameters["data_path"].required and not package.parameters["tags"].required


def test_the_digest_goes_by_content(tmp_path, package_path):
    first = read_package(package_path).digest
    for added, same in (("\n# another comment\n", True), ("---\nplatforms: {kubernetes: {}}\n", False)):
        with open(package_path, "a", encoding="utf-8") as f:
            f.write(added)
        package = read_package(package_path)
        assert package.name == "digits" and (package.digest == first) == same
    assert read_package(write_package(tmp_path, steps=("trainer",))).digest != first


def test_the_steps_are_found_in_what_the_server_gives_back():
    spec = {"root": {"dag": {"tasks": {"a": {}}}}}
    assert step_names(spec) == step_names({"pipeline_spec": spec, "platform_spec": {}}) == ("a",)


def test_a_file_that_no_server_takes_is_refused(tmp_path):
    path = tmp_path / "p.yaml"
    for text, message in (
        ("name: x\n", "expected a compiled pipeline with one pipelineInfo, found none"),
        ("pipelineInfo: {name: x}\nschemaVersion: 2.0.0\n", "expected schemaVersion 2.1.0, found 2.0.0"),
        ("a: [", "not valid YAML"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_package(str(path))


def test_tasks_come_in_the_order_of_what_they_need():
    tasks = {"a": {"dependentTasks": ["c"]}, "b": {"dependentTasks": ["a"]}}
    tasks["c"] = {"componentRef": {"name": "inner"}}
    inner = {"dag": {"tasks": {"x": {"dependentTasks": ["y"]}, "y": {}}}}
    tree = step_tree({"root": {"dag": {"tasks": tasks}}, "components": {"inner": inner}})
    assert list(tree) == ["c", "a", "b"] and list(tree["c"]) == ["y", "x"]
    circle = {"a": {"dependentTasks": ["b"]}, "b": {"dependentTasks": ["a"]}}
    assert list(step_tree({"root": {"dag": {"tasks": circle}}})) == ["a", "b"]
