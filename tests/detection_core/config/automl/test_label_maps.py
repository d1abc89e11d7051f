from detection_core.config.automl.label_maps import BUILT_IN, resolve_label_map, to_label_map
from detection_core.config.automl.typed_values import load_hyperparameters
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import config_refused

FACTS = load_facts("label_maps")


def test_golden_maps_become_ours(tmp_path):
    path = tmp_path / "names.yaml"
    path.write_text(FACTS["yaml_file"]["params"]["text"], encoding="utf-8")
    for name in (*BUILT_IN, "yaml_file"):
        given = str(path) if name == "yaml_file" else name
        assert resolve_label_map(given) == {int(n): text for n, text in FACTS[name]["fact"].items()}, name
    assert resolve_label_map({1: "a"}) == {1: "a"}
    for nothing in (None, "", {}):
        assert resolve_label_map(nothing) == {}
    found = to_label_map({0: "background", 1: "person", 3: "dog"})
    assert [(item.id, item.name) for item in found.items] == [(1, "person"), (3, "dog")]
    config_refused(r"hparams\.label_map: .*dog", to_label_map, {1: "dog", 2: "dog"})
    message = r"hparams\.label_map: .*one of coco, voc, waymo, found 'foo'"
    config_refused(message, resolve_label_map, "foo")
    for value in (5, ["person"]):
        message, hparams = r"hparams\.label_map: expected a table of class id: name", {"label_map": value}
        config_refused(message, load_hyperparameters, "efficientdet-d0", hparams)
