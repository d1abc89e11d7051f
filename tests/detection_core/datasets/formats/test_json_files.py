import math

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats import json_files
from tests.support.cases import cases, refused


@cases(
    (None, "missing_annotation"), (b"{", "unreadable_annotation"), (b"\xff", "unreadable_annotation"),
    (b"[" * 100_000, "unreadable_annotation"), (b"", "unreadable_annotation"),
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_has_a_reason(tmp_path, *, data, reason):
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    assert refused(Rejected, "", json_files.parse_json, str(tmp_path / "a")).reason == reason


def test_sound_values_are_given_back_and_others_refused(tmp_path):
    for value in (None, True, "1", [1], math.nan, math.inf, 10**400):
        refused(Rejected, "expected x as", json_files.number_of, value, "x")
        refused(Rejected, "", json_files.point_of, [1, value], "x")
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf[1]")
    assert json_files.parse_json(str(tmp_path / "a")) == [1]
    assert json_files.number_of(2, "x") == 2.0
    assert json_files.point_of([1, 2.5], "x") == (1.0, 2.5)
    assert json_files.size_of(40, 30.0) == (40, 30) and json_files.size_of(None, None) == (0, 0)
    assert json_files.mapping_of({}, "x") == {} and json_files.list_of([], "x") == []
    for size in ((-1, 2), (1.5, 2), ("4", 3)):
        refused(Rejected, "", json_files.size_of, *size)
    refused(Rejected, "expected x as a list", json_files.list_of, {}, "x")
    for value in (None, 1, "x", []):
        refused(Rejected, "expected x as a JSON object", json_files.mapping_of, value, "x")
        refused(Rejected, "", json_files.point_of, value, "x")
