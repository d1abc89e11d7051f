import dataclasses
import io
import zipfile

import pytest
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts import tflite_provenance
from detection_core.artifacts.tflite_metadata import TFLiteDescription, read_description, with_score_threshold
from detection_core.artifacts.tflite_provenance import read_provenance, unmeasured, with_provenance
from detection_core.errors import ContractError, ModelError
from detection_core.exporters.tflite_description import add_description
from tests.support.bare_tflite import DECODING, DESCRIPTION, bare_file, heads
from tests.support.cases import refused

ORIGIN = tflite_provenance.Provenance(
    written_by="detflow 1.2.3",
    model="tiny",
    format="int8",
    quantization="aware",
    config_hash="0123456789abcdef",
    data_fingerprint="fedcba9876543210",
    trained_as="aaaa",
    split="eval",
    metrics={"mAP": 0.5, "mAP (large)": None},
)


@pytest.fixture(scope="module")
def described() -> bytes:
    description = TFLiteDescription(name="m", mean=(0.0,), std=(1.0,), labels=("a", "b"))
    return add_description(bare_file(), description)


def test_it_is_read_back_replaced_removed_and_no_hindrance(described):
    content = with_provenance(described, ORIGIN)
    assert read_provenance(content) == ORIGIN
    assert read_description(content) == read_description(described)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.txt", "detflow.json"]
        # MediaPipe's reader of associated files takes stored entries alone.
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    noisy = dataclasses.replace(ORIGIN, metrics={"mAP": 0.50000012345, "mAP (large)": None})
    assert with_provenance(described, noisy) == with_provenance(described, ORIGIN)
    other = dataclasses.replace(ORIGIN, format="float32")
    assert with_provenance(with_provenance(described, other), ORIGIN) == with_provenance(described, ORIGIN)
    assert unmeasured(with_provenance(described, ORIGIN)) == described
    assert unmeasured(described) == described
    assert unmeasured(with_provenance(bare_file(), ORIGIN)) == bare_file()
    interpreter = Interpreter(model_content=with_provenance(described, ORIGIN))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert read_provenance(bare_file()) is None and read_provenance(described) is None


def test_a_score_threshold_goes_with_it_and_a_newer_or_damaged_one_is_refused(described):
    described = add_description(heads(), dataclasses.replace(DESCRIPTION, score_threshold=0.0), DECODING)
    measured = with_provenance(with_score_threshold(described, 0.25), ORIGIN)
    assert read_description(measured).score_threshold == 0.25
    assert unmeasured(measured) == described
    with pytest.raises(ModelError, match="expected metadata with a score threshold, found none"):
        with_score_threshold(bare_file(), 0.25)
    content = with_provenance(described, ORIGIN)
    with pytest.raises(ModelError, match=r"m\.tflite: expected an archive"):
        read_provenance(content.replace(b'"aaaa"', b'"bbbb"'), where="m.tflite")
    stream = io.BytesIO(described)
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as newer:
        newer.writestr(tflite_provenance.PROVENANCE.name, '{"schema_version": 99}')
    refused(ContractError, "a newer detflow", read_provenance, stream.getvalue())
