import inspect
import re
from pathlib import Path

from tensorflow.lite.python import schema_py_generated as schema

import detection_core
from detection_core.artifacts import tflite_slots as slots
from tests.support.cases import cases

ROOT = Path(detection_core.__file__).parent


TABLES = [t for t in vars(slots).values() if isinstance(t, type) and hasattr(schema, t.__name__)]


@cases(*TABLES)
def test_a_field_lies_where_the_compiled_schema_has_it(*, table):
    assert len(TABLES) == 10
    code = inspect.getsource(schema)
    prefix = re.escape(f"def {table.__name__}Add")
    written = re.findall(prefix + r"(\w+)\(.*\n\s+builder\.Prepend\w+Slot\((\d+)", code)
    compiled = {name.lower(): int(slot) for name, slot in written}
    stated = {name.replace("_", "").lower(): slot.value for name, slot in table.__members__.items()}
    assert compiled and stated.items() <= compiled.items()


def test_the_identifier_is_that_of_the_compiled_schema():
    assert schema.Model.ModelBufferHasIdentifier(b"\0" * 4 + slots.MODEL_IDENTIFIER, 0)


@cases(
    "artifacts/tflite_metadata.py",
    "artifacts/tflite_file.py",
    "artifacts/tflite_graph.py",
    "exporters/tflite_description.py",
)
def test_readers_and_the_writer_state_no_slot(*, name):
    code = (ROOT / name).read_text(encoding="utf-8")
    called = r"\.(has|number|raw|text|floats|integers|table|tables)\(\d"
    assert not re.search(called, code) and not re.search(r'\(\d+, "(offset|u?int\d+)"', code)
    assert 'b"TFL3"' not in code and 'b"M001"' not in code
