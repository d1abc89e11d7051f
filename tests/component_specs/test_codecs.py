"""How parameters travel: as JSON, as numbers, as texts that may be packed."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component_specs import codecs
from component_specs.codecs import (
    PLAIN_BYTES,
    JsonFields,
    JsonList,
    JsonObject,
    PackedText,
    Parameter,
    Plain,
)
from tests.support.cases import cases

TEXT = PackedText("a text")
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
NO_TEXT = "expected a config, found not a packed text"
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
    assert codecs.CommaSeparated().encode(("float32", "int8")) == "float32,int8"
    assert codecs.CommaSeparated().decode(" float32 , int8,") == ("float32", "int8")


def test_a_text_is_packed_and_comes_back_short_ones_stay_readable_and_long_ones_get_short():
    assert TEXT.decode(TEXT.encode("é" * 10_000)) == "é" * 10_000
    assert len(TEXT.encode("é" * 10_000)) < 10_000 and TEXT.encode("model { }") == "model { }"
    assert TEXT.encode("model { ssd { } }") == "model { ssd { } }"
    long = "feature_extractor { type: 'x' } " * 2000
    packed = TEXT.encode(long)
    assert len(long) > 60_000 and len(packed) < 1000 and TEXT.decode(packed) == long
    assert TEXT.encode("x" * PLAIN_BYTES) == "x" * PLAIN_BYTES
    # As bzip2 1.0 packs it; another outcome would repeat finished trainings.
    assert TEXT.encode("a" * 10_000) == "bz2:QlpoOTFBWSZTWe20CmsAABWJAIgAIAAACCAAMMwFKacao2KjxdyRThQkO20CmsA="


@cases(
    *((OBJECT, text, NO_OBJECT) for text in ("", "{", "[]", "3", TOO_DEEP, TOO_LONG)),
    *((LIST, text, NO_LIST) for text in ("--x", "{}", "[1]", '"x"', TOO_DEEP)),
    *((FIELDS, text, NO_FIELDS) for text in ("[1]", "{", '{"x": []}', '{"first": 1}', TOO_DEEP)),
    (JsonObject(example="{}", of_objects=True), '{"a": 1}', "expected a JSON object such as {}, found"),
    *(
        (PackedText("a config"), text, NO_TEXT)
        for text in ("bz2:x", "bz2:!", "bz2:QUJD", "bz2:QlpoOTFBWSZTWe20")
    ),
    (Plain(int), 2.5, "expected a value of the type int, found 2.5"),
    (Plain(bool), 1, "expected a value of the type bool, found 1"),
    (Plain(float), True, "expected a value of the type float, found True"),
    (Plain(str), 1, "expected a value of the type str, found 1"),
)
def test_what_cannot_be_read_is_refused_briefly(*, codec, text, message):
    with pytest.raises(ValueError) as error:
        codec.decode(text)
    assert str(error.value).startswith(message) and len(str(error.value)) < 600


def test_a_long_value_is_shown_by_its_beginning():
    assert codecs.shorten({"a": 1}) == "{'a': 1}"
    assert codecs.shorten("x" * 1000).endswith("x... (1002 characters)")
    assert json.loads(OBJECT.example) == {"a": 1}
    assert Parameter(codec=Plain(str), default=dataclasses.MISSING).required
    assert not Parameter(codec=Plain(str), default="").required


@given(st.text())
def test_what_is_packed_comes_back(text):
    assert TEXT.decode(TEXT.encode(text)) == text
    assert TEXT.decode(TEXT.encode("bz2:" + text)) == "bz2:" + text
