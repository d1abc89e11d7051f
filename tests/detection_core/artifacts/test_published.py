import json
import os

from detection_core.artifacts import published
from detection_core.artifacts.published import Deployment, PublishedVersion
from detection_core.errors import ContractError
from tests.support.cases import cases, refused


def test_records_and_pointers_are_read_back_and_fields_of_later_versions_passed_over(tmp_path):
    path = str(tmp_path / "5.json")
    version = PublishedVersion(number=5, run_key="k", files={"saved_model.pb": 3})
    published.write_version(path, version)
    assert published.read_version(path, 5) == version
    data = json.loads((tmp_path / "5.json").read_text())
    (tmp_path / "5.json").write_text(json.dumps({**data, "colour": "blue"}))
    assert published.read_version(path, 5) == version
    root = str(tmp_path)
    assert published.read_deployment(root) == Deployment(None, ()) and not published.is_destination(root)
    published.write_deployment(root, Deployment(3, (2, 1)))
    assert published.read_deployment(root) == Deployment(3, (1, 2)) and published.is_destination(root)
    (tmp_path / "current.json").write_text('{"version": 3, "rolled_back": [], "colour": "blue"}')
    assert published.read_deployment(root) == Deployment(3, ())


def _read_fifth(root):
    return published.read_version(f"{root}/5.json", 5)


_BROKEN_POINTERS = (
    *("", "{", "[]", "null", "[" * 99999, "\xff\xfe", '{"version": 5}', '{"rolled_back": []}'),
    *(f'{{"version": {version}, "rolled_back": []}}' for version in ('"abc"', "1.5", "true")),
    *(f'{{"version": 5, "rolled_back": {numbers}}}' for numbers in ('{"a": 1}', "null")),
)
_BROKEN_RECORDS = (
    *("", "[]", "{}", "\xff", '{"number": 4}', '{"number": "5"}'),
    *(f'{{"number": 5, {field}}}' for field in ('"metrics": []', '"run_key": 5', '"files": "x"')),
)


@cases(
    *(("current.json", published.read_deployment, text) for text in _BROKEN_POINTERS),
    *(("5.json", _read_fifth, text) for text in _BROKEN_RECORDS),
)
def test_a_damaged_pointer_or_record_is_named_and_a_newer_one_refused_as_newer(tmp_path, *, name, read, text):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    assert refused(ContractError, "--to VERSION", read, str(tmp_path)).where == str(tmp_path / name)
    (tmp_path / name).write_text('{"number": 5, "version": 5, "rolled_back": [], "format_version": 2}')
    refused(ContractError, "found 2: a newer detflow has written this", read, str(tmp_path))


def test_a_pipe_is_no_pointer_and_numbers_are_those_that_tensorflow_serving_reads(tmp_path):
    os.mkfifo(tmp_path / "current.json")
    refused(ContractError, "found a folder, a pipe, a device", published.read_deployment, str(tmp_path))
    assert published.version_numbers(["10", "9", ".9", "x", "²", "\u0661", "1.5", "-3"]) == [9, 10]
