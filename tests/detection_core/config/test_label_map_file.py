import json

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.label_map_file import find_label_map, load_label_map, parse_label_map
from detection_core.data import label_map as maps
from detection_core.protos.string_int_label_map_pb2 import LVISFrequency
from tests.support.cases import cases, config_refused
from tests.support.configs import FOLDER

GOLDENS = json.loads((FOLDER / "label_maps.json").read_text())["cases"]


@cases(*GOLDENS)
def test_texts_are_read_as_by_the_reference(*, case):
    if case.get("refused"):
        config_refused("", parse_label_map, case["text"])
        return
    label_map = parse_label_map(case["text"])
    assert label_map.num_classes == case["max_id"]
    assert {item.name: item.id for item in label_map.items} == case["ids"]
    assert {str(c + 1): label_map.names[c] for c in label_map.classes} == case["names"]
    for number in case["names_with_gaps"].keys() - case["names"].keys():
        assert label_map.names[int(number) - 1] == case["names_with_gaps"][number]


FORMS = """# Names for machines and for people, in any order and form.
item { id: 3, name: '/m/03', display_name: "third" }
item <
  name: "first"
  id: 1
  keypoints { id: 0 label: "nose" } keypoints { id: 4 label: "left eye" }
  frequency: RARE instance_count: 12
  ancestor_ids: 3 ancestor_ids: 4 descendant_ids: 5
>
item { id: 0 name: "background" }
"""


def test_every_form_and_field_is_read(tmp_path):
    path = tmp_path / "label_map.pbtxt"
    path.write_text(FORMS)
    label_map = load_label_map(str(path))
    first = maps.LabelMapItem(
        id=1, name="first", frequency="RARE", instance_count=12, ancestor_ids=(3, 4), descendant_ids=(5,),
        keypoints=(maps.Keypoint(id=0, label="nose"), maps.Keypoint(id=4, label="left eye")),
    )  # fmt: skip
    third = maps.LabelMapItem(id=3, name="/m/03", display_name="third")
    assert label_map == maps.LabelMap(items=(first, third))
    assert label_map.names == ["first", "2", "third"]
    config_refused("cannot read the label map", load_label_map, str(tmp_path / "none.pbtxt"))


@cases(
    ("", "expected at least one item", ""),
    ('item { id: 0 name: "background" }', "expected at least one item", ""),
    ('item { name: "cat" }', "id 0 is kept for the background", ""),
    ('item { id: -1 name: "cat" }', "expected ids of 1 or more, found id -1", ""),
    ("item { id: 2 }", "the item with id 2 has no name", ""),
    ('item { id: 1 name: "a" } item { id: 2 name: "a" }', "'a' stands for id 1 and id 2", ""),
    ('\nitem { id: 1 nam: "a" }', r"item\[0\]\.nam: .*did you mean name", ":2"),
    ('item {\n id: "a" name: "a" }', r"item\[0\]\.id: expected a whole number", ":2"),
)
def test_a_text_that_is_no_label_map_is_one_error(*, text, message, line):
    error = config_refused(message, lambda: parse_label_map(text, where="map.pbtxt"))
    assert error.where == f"map.pbtxt{line}"


def test_the_only_label_map_of_a_folder_is_found(tmp_path):
    assert find_label_map(str(tmp_path / "none")) is None and find_label_map(str(tmp_path)) is None
    (tmp_path / "graph.pbtxt").write_text("node { name: 'x' }")
    (tmp_path / "deep").mkdir()
    for name in ("a.pbtxt", "deep/b.pbtxt"):
        (tmp_path / name).write_text("item { id: 2 name: 'cat' }")
        assert find_label_map(str(tmp_path)).texts_by_id == {2: "cat"}
    (tmp_path / "c.pbtxt").write_text("item { id: 1 name: 'cat' }")
    assert find_label_map(str(tmp_path)) is None


def test_written_text_is_read_back():
    assert dict(LVISFrequency.items()) == {name: i for i, name in enumerate(maps.FREQUENCIES)}
    names = ['"quoted"', "back\\slash", "line\nbreak\ttab", "naïve 日本 \u2028", "a'b"]
    text = maps.format_label_map(maps.label_map_from_names(names))
    assert parse_label_map(text) == maps.label_map_from_names(names)
    assert text.count("\n") == 5 * 4  # a name never breaks its line


KEYPOINTS = st.builds(maps.Keypoint, id=st.integers(0, 9), label=st.text(max_size=3))
IDS = st.lists(st.integers(1, 9), max_size=2).map(tuple)
ITEMS = st.builds(
    maps.LabelMapItem, id=st.integers(1, 40), name=st.text(max_size=4), ancestor_ids=IDS, descendant_ids=IDS,
    display_name=st.text(min_size=1, max_size=4), keypoints=st.lists(KEYPOINTS, max_size=2).map(tuple),
    frequency=st.sampled_from(maps.FREQUENCIES), instance_count=st.integers(0, 1000),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=4, unique_by=(lambda item: item.id, lambda item: item.name)))
def test_any_label_map_comes_back_from_its_text(items):
    label_map = maps.LabelMap(items=tuple(items))
    assert parse_label_map(maps.format_label_map(label_map)) == label_map
