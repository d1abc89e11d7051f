import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

from detection_core.artifacts.data_statistics import Histogram
from detection_core.validation.homogeneity import compare, holm, jensen_shannon


def of_table(table, bins=None):
    """The histogram of objects by image and bin, [images, bins]."""
    table = np.asarray(table)
    totals = table.sum(axis=1)
    bins = bins or [str(i) for i in range(table.shape[1])]
    sums = {"counts": table, "squares": table**2, "products": table * totals[:, None], "images": table > 0}
    sums = {name: values.sum(0).tolist() for name, values in sums.items()}
    return Histogram(bins=bins, **sums, total_squares=int((totals**2).sum()))


def test_divergence_is_that_of_scipy_between_bins_of_one_name():
    random = np.random.default_rng(0)
    for _ in range(20):
        p, q = random.dirichlet(np.ones(6), 2)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2)
    assert jensen_shannon(np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0])) == 1.0
    assert jensen_shannon(np.asarray([0.5, 0.5]), np.asarray([0.5, 0.5])) == 0.0
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1; never below the one before.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
    few, more = [[1, 0]] * 30 + [[0, 1]] * 20, [[1, 0]] * 20 + [[0, 1]] * 30
    alike = compare(of_table(few, ["a", "b"]), of_table(more, ["b", "a"]))
    assert alike.divergence == pytest.approx(0) and alike.p_value == pytest.approx(1)
    new = compare(of_table([[1, 0]] * 50, ["a", "b"]), of_table([[1]] * 50, ["c"]))
    assert new.divergence == pytest.approx(1) and new.p_value < 1e-6
    assert (new.most_changed, new.before, new.after) == ("a", 0.0, 1.0)
    too_little = ([[0, 0]], [[5, 5]]), ([[1, 0]] * 100, [[1, 0]] * 100), ([[1, 0]] * 4, [[0, 1]] * 4)
    for one, other in too_little:
        assert compare(of_table(one), of_table(other)) is None, (one, other)


def test_two_shares_are_tested_as_in_the_textbooks_and_herds_count_less():
    random = np.random.default_rng(1)
    tables = [random.multinomial(1, p, n) for p, n in (((0.6, 0.4), 400), ((0.5, 0.5), 300))]
    found = compare(*map(of_table, tables))
    expected = stats.chi2_contingency(np.stack([t.sum(0) for t in tables]), correction=False)
    # Two bins are compared, which say the same; the variance is that of these images, not the binomial one.
    assert found.p_value == pytest.approx(2 * expected.pvalue, rel=0.1)
    # Copying every object ten times within its image adds nothing that is known.
    random = np.random.default_rng(2)
    tables = [random.multinomial(1, p, 200) for p in ((0.6, 0.4), (0.45, 0.55))]
    alone = compare(*map(of_table, tables))
    herds = compare(*(of_table(table * 10) for table in tables))
    assert herds.p_value == pytest.approx(alone.p_value, rel=1e-9)
    common = np.eye(3, dtype=int)[[0] * 100 + [1] * 100]
    rare = np.eye(3, dtype=int)[[0] * 100 + [1] * 100 + [2] * 9]
    found = compare(of_table(rare), of_table(common))
    assert found.most_changed in "01" and found.p_value == 1.0


def test_the_statistic_is_that_of_a_loop_over_images():
    random = np.random.default_rng(3)
    shares = [random.dirichlet([0.5] * 3, n) for n in (300, 150)]
    tables = [random.poisson(random.gamma(1.0, 2.0, (len(share), 1)) * share) for share in shares]
    found = compare(*map(of_table, tables))
    totals = [table.sum() for table in tables]
    pooled = sum(table.sum(0) for table in tables) / sum(totals)
    largest = 0.0
    for k in range(3):
        shares = [table[:, k].sum() / total for table, total in zip(tables, totals, strict=True)]
        variances = [
            sum((row[k] - pooled[k] * row.sum()) ** 2 for row in table) / total**2
            for table, total in zip(tables, totals, strict=True)
        ]
        largest = max(largest, abs(shares[0] - shares[1]) / math.sqrt(sum(variances)))
    assert found.p_value == pytest.approx(min(1.0, 3 * 2 * stats.norm.sf(largest)), rel=1e-9)
