import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.json_values import JSON_KEY, OMIT_DEFAULT, JsonFault, decode, encode
from tests.support.cases import cases, refused


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    label: str = dataclasses.field(metadata={JSON_KEY: "class"})
    box: tuple[float, float] = (0.0, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    count: int
    ratio: float | None = None
    good: bool = True
    names: tuple[str, ...] = ()
    inner: list[Inner] = dataclasses.field(default_factory=list)
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    note: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    more: dict[str, Any] = dataclasses.field(default_factory=dict, metadata=OMIT_DEFAULT)


FULL = {
    "count": 3,
    "ratio": 1,
    "good": False,
    "names": ["a"],
    "inner": [{"class": "cat", "box": [1, 2.5]}],
    "metrics": {"mAP": 0.5, "AR": None},
    "note": "n",
    "more": {"x": [1]},
}


def test_what_is_read_and_written_again_has_the_same_bytes():
    value = decode(Outer, FULL)
    assert value.inner[0] == Inner(label="cat", box=(1, 2.5)) and value.names == ("a",)
    assert json.dumps(encode(value)) == json.dumps(FULL)
    assert decode(Outer, {"count": 1, "later": [1, 2]}) == Outer(count=1)
    written = encode(Outer(count=1))
    assert "note" not in written and "more" not in written and written["ratio"] is None


@cases(
    ({"count": True}, "expected a whole number as count, found True"),
    ({"count": 1.5}, "expected a whole number as count, found 1.5"),
    ({"ratio": "x"}, "expected a number as ratio, found 'x'"),
    ({"good": 1}, "expected true or false as good, found 1"),
    ({"names": "ab"}, "expected a list as names, found 'ab'"),
    ({"inner": [{"class": "a", "box": [1]}]}, r"expected a list of 2 as inner\[0\].box"),
    ({"inner": [{}]}, r"expected class in inner\[0\], found none"),
    ({"metrics": {"mAP": []}}, r"expected a number as metrics.mAP, found \[\]"),
    ({"metrics": []}, "expected an object as metrics"),
)
def test_a_fault_is_named_with_its_place(*, change, message):
    refused(JsonFault, message, decode, Outer, {**FULL, **change})


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.sampled_from([*FULL, "class", "box"]), v),
    )
)
def test_any_json_is_read_or_refused(value):
    try:
        assert isinstance(decode(Outer, value), Outer)
    except JsonFault as fault:
        assert "expected" in str(fault)
