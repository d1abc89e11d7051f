import json

from detection_core.artifacts.pushed import PUSHED, PushReport


def test_the_destination_is_named_where_something_was_published():
    refused = PushReport(pushed=False, version=None, reasons=["mAP fell"])
    expected = {"pushed": False, "version": None, "reasons": ["mAP fell"], "schema_version": 1}
    assert json.loads(PUSHED.format(refused)) == expected
    published = PushReport(pushed=True, version=3, reasons=[], path="/pushed")
    assert PUSHED.parse(PUSHED.format(published), "pushed.json") == published
