import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component_specs.codecs import (
    CommaSeparated,
    JsonFields,
    JsonList,
    JsonObject,
    PackedText,
    Parameter,
    ParameterError,
    Plain,
    shorten,
)
from tests.support.cases import cases

OBJECT = JsonObject(example='{"a": 1}')
LIST = JsonList(example='["--x"]')
TOO_DEEP, TOO_LONG = "[" * 100_000, f'{{"a": {"9" * 5000}}}'


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Windows:
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()


NO_OBJECT = 'expected a JSON object such as {"a": 1}, found'
NO_LIST = 'expected a JSON list of texts such as ["--x"], found'
NO_FIELDS = 'expected a JSON object such as {"first": ["1"]}, found'
FIELDS = JsonFields(type=_Windows, example='{"first": ["1"]}')


_VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
_TUPLES = st.lists(st.text()).map(tuple)


@given(st.dictionaries(st.text(), _VALUES), _TUPLES, _TUPLES)
def test_maps_lists_and_dataclasses_come_back_as_they_were_sent(value, first, second):
    assert OBJECT.decode(OBJECT.encode(value)) == value
    assert OBJECT.encode(value) == OBJECT.encode(dict(reversed(value.items())))
    assert LIST.decode(LIST.encode(first)) == first
    windows = _Windows(first=first, second=second)
    assert FIELDS.decode(FIELDS.encode(windows)) == windows


def test_empty_texts_orders_and_numbers():
    ordered = JsonObject(example="{}", ordered=True)
    assert list(ordered.decode(ordered.encode({"b": 1, "a": 2}))) == ["b", "a"]
    assert ordered.encode({"b": 1, "a": 2}) != ordered.encode({"a": 2, "b": 1})
    assert FIELDS.encode(_Windows()) == "" and FIELDS.decode("") == _Windows() and LIST.decode("") == ()
    assert FIELDS.decode('{"second": [7]}') == _Windows(second=("7",))
    for codec, carried, value in ((Plain(int), 10.0, 10), (Plain(float), 1, 1.0), (Plain(bool), True, True)):
        assert codec.decode(carried) == value and type(codec.decode(carried)) is codec.carried_as
    assert CommaSeparated().encode(("float32", "int8")) == "float32,int8"
    assert CommaSeparated().decode(" float32 , int8,") == ("float32", "int8")


@cases("", "model { ssd {} }", "bz2: a text that looks packed", "é" * 10_000)
def test_a_text_is_packed_and_comes_back(*, text):
    codec = PackedText("a text")
    assert codec.decode(codec.encode(text)) == text
    assert len(codec.encode(text)) < 10_000


@cases(
    *((OBJECT, text, NO_OBJECT) for text in ("", "{", "[]", "3", TOO_DEEP, TOO_LONG)),
    *((LIST, text, NO_LIST) for text in ("--x", "{}", "[1]", '"x"', TOO_DEEP)),
    *((FIELDS, text, NO_FIELDS) for text in ("[1]", "{", '{"x": []}', '{"first": 1}', TOO_DEEP)),
    (JsonObject(example="{}", of_objects=True), '{"a": 1}', "expected a JSON object such as {}, found"),
    (PackedText("a config"), "bz2:x", "expected a config, found not a packed text"),
    (Plain(int), 2.5, "expected a value of the type int, found 2.5"),
    (Plain(bool), 1, "expected a value of the type bool, found 1"),
    (Plain(float), True, "expected a value of the type float, found True"),
    (Plain(str), 1, "expected a value of the type str, found 1"),
)
def test_what_cannot_be_read_is_refused_by_name_and_briefly(*, codec, text, message):
    with pytest.raises(ParameterError) as error:
        Parameter(name="the_field", codec=codec, default=None).decode(text)
    assert str(error.value).startswith(f"the_field: {message}") and len(str(error.value)) < 600
    assert error.value.name == "the_field" and error.value.problem.startswith(message)


def test_a_long_value_is_shown_by_its_beginning():
    assert shorten({"a": 1}) == "{'a': 1}"
    assert shorten("x" * 1000).endswith("x... (1002 characters)")
    assert json.loads(OBJECT.example) == {"a": 1}
    assert Parameter(name="a", codec=Plain(str), default=dataclasses.MISSING).required
    assert not Parameter(name="a", codec=Plain(str), default="").required
