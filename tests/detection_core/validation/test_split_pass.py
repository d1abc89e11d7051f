"""Passes over parts of examples, merged in any order, give what one pass over all of them gives."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from tensorflow.core.example.example_pb2 import Example

from detection_core.data.record_format import write_record
from detection_core.data.records import count_records
from detection_core.datasets.encoding import find_decoding
from detection_core.optional.tfdv import feature_statistics
from detection_core.validation import sample_pictures, split_pass
from detection_core.validation.labelled_images import read_some
from detection_core.validation.network_view import BoxSample
from detection_core.validation.split_pass import DataPass, PassOptions, RecordPart, read_all
from tests.detection_core.validation.samples import LABELS, findings_of
from tests.support.made_examples import encode, some_images

OPTIONS = PassOptions(
    label_map=LABELS,
    images={"train": 70, "eval": 12},
    spans=("1", "2"),
    decoding=find_decoding("sample"),
    hashes=True,
)


@pytest.fixture
def records():
    """Records of two splits, some of which are tiles or have columns that others lack."""
    splits = {"train": some_images(70, seed=1), "eval": some_images(12, seed=2)}
    found = {split: [encode(made, n) for n, made in enumerate(images)] for split, images in splits.items()}
    for number in range(0, 70, 4):
        example = Example.FromString(found["train"][number])
        example.features.feature[f"column {number}"].float_list.value.extend([number / 3, 1e30, -1e-30])
        if number % 3:
            example.features.feature["image/tile"].int64_list.value.extend([0, 0])
        found["train"][number] = example.SerializeToString()
    return found


def _parts(records, folder, cuts):
    """Write the records of each split in files that end at some places."""
    parts = []
    for split, of_split in records.items():
        edges = [0, *sorted(cut % len(of_split) for cut in cuts), len(of_split)]
        for begin, end in itertools.pairwise(edges):
            path = folder / f"{split}-{len(parts):02d}"
            with open(path, "wb") as file:
                for record in of_split[begin:end]:
                    write_record(file, record)
            parts.append(RecordPart(split, str(path), begin))
    return parts


def _merged(parts, random):
    """Read each part separately, and merge them in a random order, some before others."""
    passes = [DataPass(OPTIONS).merge(DataPass(OPTIONS).read(part)) for part in parts]
    while len(passes) > 1:
        one, other = (passes.pop(random.integers(len(passes))) for _ in range(2))
        passes.append(pickle.loads(pickle.dumps(one)).merge(pickle.loads(pickle.dumps(other))))
    return passes[0]


def _results(found, parts, folder):
    """All results of a pass, as values to compare."""
    splits = {}
    for split, result in sorted(found.splits.items()):
        boxes = result.boxes.drawn()
        values = {name: getattr(boxes, name).tolist() for name in ("boxes", "sizes", "records")}
        values |= {"by record": list(map(list, result.by_record())), "profile": result.profile.profile()}
        values |= {name: counter.statistics() for name, counter in result.spans.items()}
        values["all"] = result.images.statistics(), result.card(), boxes.total, result.files.decoded
        values["features"] = result.features.statistics().SerializeToString(deterministic=True)
        for check in (result.files, result.annotations):
            values[type(check).__name__] = findings_of(check.report, split).findings()
        splits[split] = values

    def read(split, numbers):
        counts = {part.file: count_records(part.file) for part in parts if part.split == split}
        return read_some(counts, LABELS, numbers)

    found.pictures.write(str(folder), read)
    pictures = {path.name: path.read_bytes() for path in (folder / "pictures").iterdir()}
    return splits, found.folders.statistics(), pictures


def _compare(records, folder):
    """Compare merged passes with one over all records; return its results."""
    (folder / "whole").mkdir(parents=True)
    whole = _parts(records, folder / "whole", ())
    expected = _results(read_all(whole, OPTIONS), whole, folder / "expected")
    for seed in range(2):
        random, below = np.random.default_rng(seed), folder / f"parts {seed}"
        below.mkdir()
        parts = _parts(records, below, [0, 7, 7, *random.integers(0, 1_000, 4)])  # two are empty
        assert _results(_merged(parts, random), parts, below) == expected, seed
    assert _results(read_all(parts, OPTIONS), parts, folder / "read") == expected
    return expected


def test_parts_in_any_order_give_what_one_pass_gives(records, tmp_path, monkeypatch):
    splits, folders, pictures = _compare(records, tmp_path / "all")
    assert len(folders) == 3 and len(pictures) == 29 and splits["train"]["all"][0].images > 50
    # Every limit is reached.
    monkeypatch.setattr(split_pass, "BoxSample", functools.partial(BoxSample, 40))
    monkeypatch.setattr(split_pass, "MOST_FOLDERS", 2)
    monkeypatch.setattr(sample_pictures, "_MOST_SAMPLES", 5)
    for name, limit in {"_SAMPLED": 50, "_COUNTED": 16, "_MOST_VALUES": 20, "_MOST_COLUMNS": 14}.items():
        monkeypatch.setattr(feature_statistics, name, limit)
    splits, folders, pictures = _compare(records, tmp_path / "few")
    assert not folders and len(splits["train"]["boxes"]) == 40
