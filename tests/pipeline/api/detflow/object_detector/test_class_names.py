from detection_core import ConfigError
from detflow.object_detector.class_names import as_label_map, read_classes
from tests.support.refusals import not_refused


def test_the_forms_of_a_label_map(tmp_path):
    classes = {1: "cat", 2: "dog"}
    (tmp_path / "map.yaml").write_text("1: cat\n2: dog\n")
    for given in (["cat", "dog"], ("cat", "dog"), classes, {0: "background", **classes}):
        assert read_classes(given) == classes
    assert read_classes(str(tmp_path / "map.yaml")) == classes
    assert len(read_classes("voc")) == 20 and read_classes("coco")[90] == "toothbrush"
    assert as_label_map({2: "dog", 5: "cat"}).names == ["1", "dog", "3", "4", "cat"]
    texts = ([], [""], ["cat", "cat"], "no-such-set", 7)
    maps = ({0: "cat"}, {"1": "cat"}, {True: "cat"}, {-1: "cat"}, {1: 3})
    cases = [(given, "^label_map: ") for given in (*texts, *maps)]
    cases.append((7, r"expected names, ids to names, .* of coco, voc and waymo, found 7"))
    assert not not_refused(read_classes, cases, ConfigError)
