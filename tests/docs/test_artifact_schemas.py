import json

import jsonschema
import pytest

from detection_core.artifacts.json_file import JsonFile
from tests.detection_core.artifacts.test_samples import SAMPLES, read_sample
from tests.docs.artifact_schemas import FOLDER, files, schema_name, schema_of, texts
from tests.support.cases import cases


def test_the_schemas_are_those_of_the_dataclasses():
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert found == texts(), "run: python -m tests.docs.artifact_schemas"
    # Every file has its own.
    names = [schema_name(file) for file in files()]
    assert len(set(names)) == len(names) >= 19


@cases(*SAMPLES)
def test_a_schema_accepts_what_was_written_so_far_and_what_is_written_now(*, sample):
    file = SAMPLES[sample]
    schema = schema_of(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = read_sample(sample)
    for line in text.splitlines() if sample.endswith(".jsonl") else [text]:
        jsonschema.validate(json.loads(line), schema)
    if isinstance(file, JsonFile):
        jsonschema.validate(json.loads(file.format(file.parse(text, sample))), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**json.loads(text), file.version_key: file.version + 1}, schema)
