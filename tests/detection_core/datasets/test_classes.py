from detection_core.datasets.classes import make_label_map, similar_names
from detection_core.errors import DataError
from tests.support.cases import refused


def test_ids_are_kept_or_numbered_by_name_and_splits_that_contradict_each_other_refused():
    label_map = make_label_map([{"cat": 3}, {"dog": 1, "cat": 3}])
    assert [(item.id, item.name) for item in label_map.items] == [(1, "dog"), (3, "cat")]
    splits = [{"rbc": 0}, {"wbc": 0, "platelets": 0}]
    label_map = make_label_map(splits)
    assert label_map == make_label_map(reversed(splits))
    assert [(item.id, item.name) for item in label_map.items] == [(1, "platelets"), (2, "rbc"), (3, "wbc")]
    refused(DataError, r"'cat', found 3 and 4", make_label_map, [{"cat": 3}, {"cat": 4}])
    refused(DataError, "ids used twice", make_label_map, [{"cat": 3}, {"dog": 3}])
    refused(DataError, "found none", make_label_map, [{}, {}])
    refused(DataError, "one that cannot be used: a", make_label_map, [{}], "a.csv: found more")
    names = ["RBC", "rbc", "white cell", "White  cell ", "whitecell", "other"]
    assert similar_names(names) == [["RBC", "rbc"], ["White  cell ", "white cell", "whitecell"]]
    assert similar_names(["a", "a", "b"]) == []
