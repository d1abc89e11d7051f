import math

from components.runtime.kfp.artifacts import (
    finite_numbers,
    local_path,
    make_metadata,
    plain_metadata,
    read_properties,
)
from tests.support.cases import cases
from tests.support.executor_input import through_metadata_store


@cases(
    ({"uri": "gs://bucket/a/b"}, "/gcs/bucket/a/b"),
    ({"uri": "s3://bucket/a"}, "/s3/bucket/a"),
    ({"uri": "minio://bucket/a"}, "/minio/bucket/a"),
    ({"uri": "oci://registry/model:1"}, "/oci/registry_model:1/models"),
    ({"uri": "/plain/path"}, "/plain/path"),
    ({"uri": "minio://b/a", "customPath": "/elsewhere"}, "/elsewhere"),
    ({"uri": "minio://b/a", "metadata": {"_kfp_workspace": 1.0}}, "/kfp-workspace/.artifacts/minio/b/a"),
    ({"uri": "minio://b/a", "metadata": {"_kfp_workspace": False}}, "/minio/b/a"),
)
def test_where_an_artifact_lies(*, artifact, path):
    assert local_path(artifact) == path


def test_another_root_moves_object_stores_and_nothing_else(tmp_path):
    assert local_path({"uri": "gs://b/a"}, str(tmp_path)) == str(tmp_path / "gcs" / "b" / "a")
    assert local_path({"uri": "/plain"}, str(tmp_path)) == "/plain"


def test_metadata_come_back_from_the_store():
    made = {"steps": 3, "loss": 0.5, "blessed": True, "names": ["a", "b"], "sizes": {"int8": 7}, "text": "3"}
    once = {"metadata": through_metadata_store(made)}
    assert once["metadata"]["blessed"] is not True and type(once["metadata"]["blessed"]) is int
    assert type(once["metadata"]["steps"]) is float
    twice = {"metadata": through_metadata_store(once["metadata"])}
    # Only a text keeps its kind: True and 1 are told apart no more.
    expected = {**made, "blessed": 1}
    assert plain_metadata(once) == plain_metadata(twice) == expected


def test_curves_and_matrices_arrive_wrapped_and_are_unwrapped():
    made = {
        "confidenceMetrics": [{"confidenceThreshold": 0.5, "recall": 1}],
        "confusionMatrix": {"annotationSpecs": [{"displayName": "cat"}], "rows": [{"row": [3, 0]}]},
    }
    stored = through_metadata_store(made)
    assert stored["confidenceMetrics"].keys() == {"list"} and stored["confusionMatrix"].keys() == {"struct"}
    assert plain_metadata({"metadata": stored}) == made


def test_properties_keep_their_kinds_through_the_store():
    made = make_metadata("Model", {"steps": 3, "loss": 2.0, "blessed": True, "from": "x", "nothing": None})
    found = read_properties({"metadata": through_metadata_store(made)})
    assert found == {"steps": 3, "loss": 2.0, "blessed": True, "from": "x"}
    assert type(found["loss"]) is float and found["blessed"] is True
    values = {"a": math.nan, "b": math.inf, "c": [1], "d": 1}
    assert make_metadata("Model", values) == {"artifact_type": "Model", "d": 1, "properties": '{"d": 1}'}
    assert finite_numbers({**values, "e": True, "f": "text"}) == {"d": 1}

    # What others call properties is no trouble.
    for text in ("no json", "3", "[1]"):
        assert read_properties({"metadata": {"properties": text, "steps": 4.0}}) == {"steps": 4}
