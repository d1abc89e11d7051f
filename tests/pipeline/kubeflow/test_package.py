from pipeline.kubeflow.package import read_package, step_names, step_tree
from tests.pipeline.kubeflow.conftest import write_package


def test_a_package_tells_its_name_steps_and_parameters(package_path):
    package = read_package(package_path)
    assert package.name == "digits" and set(package.steps) == {"example-gen", "trainer", "pusher"}
    assert package.parameters["data_path"].required and not package.parameters["tags"].required
    # The steps are found in what the server gives back, too.
    spec = {"root": {"dag": {"tasks": {"a": {}}}}}
    assert step_names(spec) == step_names({"pipeline_spec": spec, "platform_spec": {}}) == ("a",)


def test_the_digest_goes_by_content(tmp_path, package_path):
    first = read_package(package_path).digest
    for added, same in (("\n# another comment\n", True), ("---\nplatforms: {kubernetes: {}}\n", False)):
        with open(package_path, "a", encoding="utf-8") as f:
            f.write(added)
        package = read_package(package_path)
        assert package.name == "digits" and (package.digest == first) == same
    assert read_package(write_package(tmp_path, steps=("trainer",))).digest != first


def test_tasks_come_in_the_order_of_what_they_need():
    tasks = {"a": {"dependentTasks": ["c"]}, "b": {"dependentTasks": ["a"]}}
    tasks["c"] = {"componentRef": {"name": "inner"}}
    inner = {"dag": {"tasks": {"x": {"dependentTasks": ["y"]}, "y": {}}}}
    tree = step_tree({"root": {"dag": {"tasks": tasks}}, "components": {"inner": inner}})
    assert list(tree) == ["c", "a", "b"] and list(tree["c"]) == ["y", "x"]
    circle = {"a": {"dependentTasks": ["b"]}, "b": {"dependentTasks": ["a"]}}
    assert list(step_tree({"root": {"dag": {"tasks": circle}}})) == ["a", "b"]
