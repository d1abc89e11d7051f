"""Features of `tf.train.Example` by key, for records that ingest does not write."""

from collections.abc import Iterable, Mapping

from detection_core.protos.example_pb2 import BytesList, Example, Feature, FloatList, Int64List


def bytes_feature(values: Iterable[bytes]) -> Feature:
    return Feature(bytes_list=BytesList(value=values))


def float_feature(values: Iterable[float]) -> Feature:
    return Feature(float_list=FloatList(value=values))


def int64_feature(values: Iterable[int]) -> Feature:
    return Feature(int64_list=Int64List(value=values))


def example_of(features: Mapping[str, Feature]) -> Example:
    return Example(features={"feature": features})


def serialise_features(features: Mapping[str, Feature]) -> bytes:
    return example_of(features).SerializeToString(deterministic=True)
