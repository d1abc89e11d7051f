"""Classes of a data set."""

import pytest

from detection_core.data.label_map import LabelMap, LabelMapItem, format_label_map, label_map_from_names
from detection_core.errors import DataError
from tests.support.cases import cases

# As in COCO: ids with gaps, codes as names.
GAPS = LabelMap(
    items=(
        LabelMapItem(id=5, name="/m/05", display_name="truck"),
        LabelMapItem(id=1, name="/m/01", display_name="person"),
        LabelMapItem(id=2, name="/m/02"),
    )
)


def test_items_of_one_id_and_texts_in_two_places():
    items = [LabelMapItem(id=2, name="/m/cat", display_name="Cat"), LabelMapItem(id=2, name="kitten")]
    items.append(LabelMapItem(id=1, name="", display_name="Dog"))
    assert LabelMap(items=tuple(items)).texts_by_id == {1: "Dog", 2: "/m/cat"}
    merged = LabelMap(items=(LabelMapItem(id=1, name="car"), LabelMapItem(id=1, name="van")))
    assert (merged.num_classes, merged.names, merged.classes) == (1, ["car"], (0,))
    assert merged.ids_by_text == {"car": 1, "van": 1}
    items = (LabelMapItem(id=1, name="a", display_name="b"), LabelMapItem(id=2, name="b"))
    assert LabelMap(items=items).ids_by_text == {"a": 1, "b": 2}
    swapped = (LabelMapItem(id=1, name="b"), LabelMapItem(id=2, name="a", display_name="b"))
    assert LabelMap(items=swapped).ids_by_text == {"a": 2, "b": 2}
    items = [
        LabelMapItem(id=1, name="/m/01", display_name="Hat"),
        LabelMapItem(id=2, name="/m/02", display_name="Hat"),
        LabelMapItem(id=3, name="", display_name="Hat"),
        LabelMapItem(id=4, name="", display_name="Hat"),
        LabelMapItem(id=5, name="cat"),
        LabelMapItem(id=7, name="6"),
    ]
    names = LabelMap(items=tuple(items)).names
    assert names == ["Hat (/m/01)", "Hat (/m/02)", "Hat (id 3)", "Hat (id 4)", "cat", "6 (id 6)", "6 (id 7)"]
    assert len(set(names)) == len(names)


def test_classes_are_ids_less_one_and_gaps_count():
    assert GAPS.num_classes == 5
    assert GAPS.names == ["person", "/m/02", "3", "4", "truck"]
    assert GAPS.classes == (0, 1, 4)
    assert [item.id for item in GAPS.items] == [1, 2, 5]
    assert GAPS.ids_by_text == {"/m/01": 1, "person": 1, "/m/02": 2, "/m/05": 5, "truck": 5}
    label_map = label_map_from_names(["a", "b"])
    assert [(item.id, item.name) for item in label_map.items] == [(1, "a"), (2, "b")]
    label_map = LabelMap(items=(LabelMapItem(id=0, name="background"), LabelMapItem(id=1, name="a")))
    assert label_map == label_map_from_names(["a"])
    assert LabelMap(items=()).num_classes == 0
    text = format_label_map(LabelMap(items=(LabelMapItem(id=2, name="a b", display_name="A"),)))
    assert text == 'item {\n  name: "a b"\n  id: 2\n  display_name: "A"\n}\n'


@cases(
    ([(0, "cat")], "id 0 is kept for the background"),
    ([(-2, "cat")], "found id -2"),
    ([(1, "a"), (2, "a")], "'a' stands for id 1 and id 2"),
    ([(1, "")], "id 1 has no name"),
)
def test_contradictions_are_refused(*, items, message):
    with pytest.raises(DataError, match=message):
        LabelMap(items=tuple(LabelMapItem(id=id_, name=name) for id_, name in items))
