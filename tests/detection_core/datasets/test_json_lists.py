import json
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets import json_lists
from detection_core.datasets.json_lists import JsonLists
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.memory import memory_below

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4))
CONTENT = st.dictionaries(st.sampled_from(["a", "b", "c", 'ä"\\']), VALUES | st.lists(VALUES, max_size=8))


def _read(tmp_path, text, names=("a", "b")):
    path = tmp_path / "file.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    lists = JsonLists(str(path), names)
    return [(name, element) for name, elements in lists for element in elements], lists.found


@settings(max_examples=120, deadline=None)
@given(CONTENT, st.sampled_from([None, 0, 3]), st.integers(1, 40), st.booleans())
def test_elements_are_those_that_json_loads_finds(tmp_path_factory, content, indent, piece, ascii_only):
    text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
    with mock.patch.object(json_lists, "PIECE", piece):
        elements, found = _read(tmp_path_factory.mktemp("json"), text)
    lists = {name: value for name, value in json.loads(text).items() if isinstance(value, list)}
    assert found == lists.keys() & {"a", "b"}
    assert elements == [(name, e) for name, value in lists.items() if name in found for e in value]


@cases(
    "", " ", "{", "[", "{1", '{"a"', '{"a":', '{"a": [1', '{"a": [1,', '{"a": [1,]}', '{"a": [1 2]}',
    '{"a": [1}', '{"a": [1]]', '{"a": [1]} x', '{"a": [nul]}', '{"a": ["x]}', '{"a": [1],}', "{'a': [1]}",
    '{"a": {"x": }}', "not JSON at all, by far", b'{"a": ["\xff"]}', '{"a": [' + "[" * 100_000,
)  # fmt: skip
def test_text_that_is_no_json_is_one_error_that_names_the_file(tmp_path, monkeypatch, *, text):
    monkeypatch.setattr(json_lists, "PIECE", 3)
    assert refused(DataError, "cannot be parsed", _read, tmp_path, text).where == str(tmp_path / "file.json")


def test_what_is_no_list_is_skipped_or_refused_by_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lists, "PIECE", 3)
    refused(DataError, "at character 11", _read, tmp_path, '{"a": [1, 2 3]}')
    for text in ('{"a": [1], "b": [], "a": 5}', '{"a": null, "a": [1]}'):
        refused(DataError, "'a' is given twice", _read, tmp_path, text)
    for text in ("[1, 2]", "17", '"a"', '{"a": 5, "b": {"a": [1]}}'):
        assert _read(tmp_path, text) == ([], set())
    refused(DataError, "regular file", lambda: list(JsonLists(str(tmp_path), ["a"])))


_KEYS = st.sampled_from(["id", "}, {", "},{"])
_OBJECTS = st.dictionaries(_KEYS, VALUES | st.just([{"x": 1}, {}]), min_size=1)
_MARKS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", ":")])


@settings(max_examples=60, deadline=None)
@given(st.lists(_OBJECTS, min_size=1), st.integers(1, 200), _MARKS)
def test_lists_of_objects_are_found_whole_whatever_is_inside_them(tmp_path_factory, objects, piece, marks):
    text = json.dumps({"a": objects, "b": objects[:1]}, separators=marks)
    with mock.patch.object(json_lists, "PIECE", piece):
        elements, _ = _read(tmp_path_factory.mktemp("json"), text)
    assert elements == [("a", each) for each in objects] + [("b", objects[0])]


def test_lists_come_window_by_window_some_values_at_a_time_and_in_any_encoding(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    content = {"a": [{"n": n} for n in range(1000)], "b": [{"n": 0}, {"n": [{}, {}]}, {"n": 2}]}
    path.write_text(json.dumps(content))
    assert [len(elements) for _, elements in JsonLists(str(path), "ab")] == [1000, 2, 1]
    monkeypatch.setattr(json_lists, "_MOST_FOUND", 10)
    path.write_text(json.dumps({"a": [0] * 95}))
    sizes = [len(elements) for _, elements in JsonLists(str(path), ["a"])]
    assert max(sizes) == 10 and sum(sizes) == 95
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        elements, _ = _read(tmp_path, '{"a": ["ä", "дом"]}'.encode(encoding))
        assert elements == [("a", "ä"), ("a", "дом")], encoding


@cases(2, 9, 1 << 20)
def test_a_file_that_is_a_list_is_read_where_it_is_asked_for(tmp_path, monkeypatch, *, piece):
    monkeypatch.setattr(json_lists, "PIECE", piece)
    tasks = [{"id": 1, "result": [{"a": 1}, {"b": 2}]}, 5, {"id": 2}]
    elements, found = _read(tmp_path, json.dumps(tasks), [json_lists.OUTERMOST])
    assert elements == [(json_lists.OUTERMOST, task) for task in tasks] and found == {json_lists.OUTERMOST}
    assert _read(tmp_path, '{"a": [1]}', [json_lists.OUTERMOST]) == ([], set())
    refused(DataError, "extra data", _read, tmp_path, "[1] x", [json_lists.OUTERMOST])


def test_memory_does_not_grow_with_the_file_and_keys_of_any_length_are_read_over(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lists, "PIECE", 1 << 14)
    path = tmp_path / "file.json"
    path.write_text('{"skipped": [' + ", ".join(["[1, 2, 3]"] * 100_000) + '], "a": [1]}')
    with memory_below(path.stat().st_size // 2):
        assert list(JsonLists(str(path), ["a"])) == [("a", [1])]
    assert _read(tmp_path, '{"' + "k" * 5_000_000 + '": 1, "a": [2]}')[0] == [("a", 2)]


# Of the second it is the missing end that is wrong: its elements are many, and small.
@cases(
    ('{"a": ["' + "x" * 5000 + '"]}', r"more than 1,000 characters at character \d"),
    ('{"a": [' + "1, " * 5000, "Expecting value"),
    ('{"a": {"' + "x" * 9000, r"more than 1,000 characters at character \d"),
    ('{"a": [{"x": [' + "[]," * 300 + "[]]}]}", "expected at most 200 values"),
)
def test_an_element_without_end_is_not_read_to_its_end(tmp_path, monkeypatch, *, text, message):
    monkeypatch.setattr(json_lists, "PIECE", 64)
    monkeypatch.setattr(json_lists, "MAX_ELEMENT", 1000)
    monkeypatch.setattr("detection_core.bounded.limits.MAX_JSON_VALUES", 200)
    refused(DataError, message, _read, tmp_path, text)
