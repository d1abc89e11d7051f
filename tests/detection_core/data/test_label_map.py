from detection_core.data.label_map import LabelMap, LabelMapItem, format_label_map, label_map_from_names
from detection_core.errors import DataError
from tests.support.cases import cases, refused


# As in COCO: ids with gaps, codes as names.
def _map(*items):
    """Make a label map of (id, name, display name), of which the last may be left out."""
    return LabelMap(items=tuple(LabelMapItem(**dict(zip(FIELDS, i, strict=False))) for i in items))


FIELDS = ("id", "name", "display_name")
GAPS = _map((5, "/m/05", "truck"), (1, "/m/01", "person"), (2, "/m/02"))


def test_items_of_one_id_and_texts_in_two_places():
    assert _map((2, "/m/cat", "Cat"), (2, "kitten"), (1, "", "Dog")).texts_by_id == {1: "Dog", 2: "/m/cat"}
    merged = _map((1, "car"), (1, "van"))
    assert (merged.num_classes, merged.names, merged.classes) == (1, ["car"], (0,))
    assert merged.ids_by_text == {"car": 1, "van": 1}
    assert _map((1, "a", "b"), (2, "b")).ids_by_text == {"a": 1, "b": 2}
    assert _map((1, "b"), (2, "a", "b")).ids_by_text == {"a": 2, "b": 2}
    hats = (1, "/m/01", "Hat"), (2, "/m/02", "Hat"), (3, "", "Hat"), (4, "", "Hat")
    names = _map(*hats, (5, "cat"), (7, "6")).names
    assert names == ["Hat (/m/01)", "Hat (/m/02)", "Hat (id 3)", "Hat (id 4)", "cat", "6 (id 6)", "6 (id 7)"]


def test_classes_are_ids_less_one_and_gaps_count():
    assert GAPS.num_classes == 5
    assert GAPS.names == ["person", "/m/02", "3", "4", "truck"]
    assert GAPS.classes == (0, 1, 4)
    assert [item.id for item in GAPS.items] == [1, 2, 5]
    assert GAPS.ids_by_text == {"/m/01": 1, "person": 1, "/m/02": 2, "/m/05": 5, "truck": 5}
    label_map = label_map_from_names(["a", "b"])
    assert [(item.id, item.name) for item in label_map.items] == [(1, "a"), (2, "b")]
    assert _map((0, "background"), (1, "a")) == label_map_from_names(["a"]) and _map().num_classes == 0
    text = format_label_map(_map((2, "a b", "A")))
    assert text == 'item {\n  name: "a b"\n  id: 2\n  display_name: "A"\n}\n'


@cases(
    ([(0, "cat")], "id 0 is kept for the background"), ([(-2, "cat")], "found id -2"),
    ([(1, "a"), (2, "a")], "'a' stands for id 1 and id 2"), ([(1, "")], "id 1 has no name"),
)  # fmt: skip
def test_contradictions_are_refused(*, items, message):
    refused(DataError, message, _map, *items)
