import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.splits import check_splits, is_by_ratio, order_digest, split_at, split_position
from detection_core.errors import ConfigError
from tests.support.cases import cases, refused

RATIOS = {"eval": 0.1, "test": 0.1, "train": 0.8}


def _assign(ids):
    split_of = {item: split_at(split_position(item), RATIOS) for item in ids}
    return {name: [item for item in ids if split_of[item] == name] for name in RATIOS}


def test_splits_are_ratios_or_locations_and_shares_about_what_was_asked():
    assert list(check_splits({"train": 0.8, "eval": 0.2}).items()) == [("eval", 0.2), ("train", 0.8)]
    assert is_by_ratio(check_splits({"train": 1}))
    assert not is_by_ratio(check_splits({"train": "ImageSets/Main/train.txt"}))
    assigned = _assign([*map(str, range(10_000))])
    assert sorted(int(n) for part in assigned.values() for n in part) == list(range(10_000))
    # Three standard deviations of a share of 0.1 among 10,000 are 0.009.
    assert all(abs(len(assigned[name]) / 10_000 - share) < 0.012 for name, share in RATIOS.items())
    ids = [str(n) for n in range(1000)]
    ordered = sorted(ids, key=order_digest)
    assert ordered == sorted(reversed(ids), key=order_digest)
    assert sum(abs(int(a) - int(b)) == 1 for a, b in itertools.pairwise(ordered)) < 20


@cases(
    ({}, "train"), ({"../x": 1.0}, "letters"), ({"": 1.0}, "letters"),
    ({"train": 0.5, "eval": 0.4}, "add up to 1"), ({"train": 1.5, "eval": -0.5}, "above 0"),
    ({"train": 10**400, "eval": 0.5}, "above 0"), ({"train": float("nan")}, "add up to 1"),
    ({"train": 0.5, "eval": "eval.json"}, "both"),
)  # fmt: skip
def test_what_cannot_be_splits_is_refused(*, splits, message):
    refused(ConfigError, message, check_splits, splits)


@settings(deadline=None)
@given(st.lists(st.text(), unique=True), st.randoms())
def test_an_image_stays_in_its_split_whatever_is_added_or_listed_first(ids, chance):
    more = [*ids, "one more"]
    chance.shuffle(more)
    before, after = _assign(ids), _assign(more)
    for name in RATIOS:
        assert set(before[name]) <= set(after[name])
