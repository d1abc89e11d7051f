"""Passes over parts of examples, merged in any order, give what one pass over all of them gives."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from tensorflow.core.example.example_pb2 import Example

from detection_core.data.record_format import write_record
from detection_core.datasets.encoding import find_decoding
from detection_core.optional.tfdv import feature_statistics
from detection_core.validation import sample_pictures, split_pass
from detection_core.validation.labelled_images import read_some
from detection_core.validation.network_view import BoxSample
from detection_core.validation.split_pass import DataPass, PassOptions, RecordPart, read_all
from tests.detection_core.validation.samples import LABELS, findings_of
from tests.support.made_examples import encode, some_images

OPTIONS = PassOptions(label_map=LABELS, spans=("1", "2"), decoding=find_decoding("sample"), hashes=True)


@pytest.fixture
def records():
    """Records of two splits, some of which are tiles or have columns that others lack."""
    splits = {"train": some_images(150, seed=1), "eval": some_images(30, seed=2)}
    found = {split: [encode(made, n) for n, made in enumerate(images)] for split, images in splits.items()}
    for number in range(0, 150, 7):
        example = Example.FromString(found["train"][number])
        example.features.feature[f"column {number}"].float_list.value.extend([number / 3, 1e30, -1e-30])
        if number % 2:
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
            parts.append(RecordPart(split=split, file=str(path), start=begin, total=len(of_split)))
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
    for split, counter in sorted(found.splits.items()):
        result = counter.result()
        values = {name: getattr(result, name) for name in ("statistics", "spans", "profile")}
        values |= {name: list(getattr(result, name)) for name in ("digests", "object_digests", "hashes")}
        values |= {name: getattr(result.boxes, name).tolist() for name in ("boxes", "sizes", "records")}
        values["features"] = result.features.SerializeToString(deterministic=True)
        values["card"] = result.objects.card(LABELS), result.boxes.total, result.files.decoded
        for check in (result.files, result.annotations):
            values[type(check).__name__] = findings_of(check.report, split).findings()
        splits[split] = values

    def read(split, numbers):
        counts = {part.file: _count(part, parts) for part in parts if part.split == split}
        return read_some(counts, LABELS, numbers)

    found.pictures.write(str(folder), read)
    pictures = {path.name: path.read_bytes() for path in (folder / "pictures").iterdir()}
    return splits, found.folders.statistics(), pictures


def _count(part, parts):
    """The number of records of a part, whose successor in the split tells where it ends."""
    return (
        min((p.start for p in parts[parts.index(part) + 1 :] if p.split == part.split), default=part.total)
        - part.start
    )


@pytest.mark.parametrize("small", [False, True])
def test_parts_in_any_order_give_what_one_pass_gives(records, tmp_path, monkeypatch, small):
    if small:  # each limit is reached
        monkeypatch.setattr(split_pass, "BoxSample", functools.partial(BoxSample, 40))
        monkeypatch.setattr(split_pass, "MOST_FOLDERS", 2)
        monkeypatch.setattr(sample_pictures, "_MOST_SAMPLES", 5)
        for name, limit in {"_SAMPLED": 50, "_COUNTED": 16, "_MOST_VALUES": 20, "_MOST_COLUMNS": 14}.items():
            monkeypatch.setattr(feature_statistics, name, limit)
    (tmp_path / "whole").mkdir()
    whole = _parts(records, tmp_path / "whole", ())
    expected = _results(read_all(whole, OPTIONS), whole, tmp_path / "expected")
    assert bool(expected[1]) != small and len(expected[2]) > 12
    for seed in range(4):
        random, folder = np.random.default_rng(seed), tmp_path / f"parts {seed}"
        folder.mkdir()
        parts = _parts(records, folder, random.integers(0, 1_000, 5))
        assert _results(_merged(parts, random), parts, folder) == expected, seed
        assert _results(read_all(parts, OPTIONS), parts, folder) == expected, seed
