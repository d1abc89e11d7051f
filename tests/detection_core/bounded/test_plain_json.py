"""Plain JSON within bounds."""

import pytest

from detection_core.bounded import plain_json
from detection_core.bounded.plain_json import check_values, parse_json_text
from tests.support.cases import refused


def test_json_is_parsed_where_it_does_not_ask_for_too_much(monkeypatch):
    assert parse_json_text('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    with pytest.raises(ValueError, match="at most 4,194,304 values, found about 4,500,001"):
        parse_json_text("[" + "[]," * 2_250_000)
    refused(ValueError, "nested too deeply", parse_json_text, "[" * 100_000)
    refused(ValueError, "4300 digits", parse_json_text, "9" * 5000)
    monkeypatch.setattr(plain_json, "MAX_JSON_VALUES", 3)
    check_values('{"imageData": "' + "A" * 1000 + '"}')
    refused(ValueError, "found about 4", check_values, "[1,2,3,4]")
