"""Data sets by folder, format and splits, as a test names them."""

from components.example_gen.ingestion import read_dataset
from components.example_gen.sources import NO_SPANS, find_data
from detection_core.datasets.layouts import check_splits


def find(path, data_format, splits, spans=NO_SPANS):
    return find_data(path, data_format, check_splits(splits), spans)


def read(path, data_format, splits, label_map=None, spans=NO_SPANS, **options):
    return read_dataset(find(path, data_format, splits, spans), label_map, **options)
