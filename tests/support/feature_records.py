"""Statistics of records that are given as features or as bytes."""

from tensorflow.core.example.example_pb2 import Example

from detection_core.data.encode import serialise_features
from detection_core.optional.tfdv.feature_statistics import FeatureCounter


def make_statistics(records):
    """Count the records as a pass over examples does."""
    counter = FeatureCounter()
    for record in records:
        data = record if isinstance(record, bytes) else serialise_features(record)
        counter.add(Example.FromString(data).features.feature)
    return counter.statistics()
