"""A sample depends on the records, and not on how they are divided and ordered."""

import numpy as np

from detection_core.validation.uniform_sample import UniformSample


def test_parts_in_any_order_give_the_sample_of_the_whole():
    random = np.random.default_rng(0)
    rows = {record: random.uniform(size=(random.integers(0, 4), 2)) for record in range(5_000)}
    whole = UniformSample(300, columns=2)
    for record, values in rows.items():
        whole.add(record, values)
    for _ in range(5):
        parts = [UniformSample(300, columns=2) for _ in range(6)]
        for record, values in sorted(rows.items(), key=lambda _: random.uniform()):
            parts[random.integers(len(parts))].add(record, values)
        first, *others = random.permutation(parts)
        for other in others:
            first.merge(other)
        assert first.seen == whole.seen == sum(map(len, rows.values()))
        for found, expected in zip(first.kept(), whole.kept(), strict=True):
            np.testing.assert_array_equal(found, expected)
    records, kept = whole.kept()
    assert len(records) == 300 and (np.diff(records) >= 0).all()
    assert all(row in rows[record] for record, row in zip(records, kept, strict=True))


def test_everything_is_kept_in_order_while_there_is_room():
    sample = UniformSample(10, columns=1)
    for record in (4, 2, 3):
        sample.add(record, [record, np.nan])
    records, rows = sample.kept()
    assert records.tolist() == [2, 2, 3, 3, 4, 4] and rows[::2, 0].tolist() == [2, 3, 4]
    assert sample.seen == 6 and UniformSample(10, columns=3).kept()[1].shape == (0, 3)
