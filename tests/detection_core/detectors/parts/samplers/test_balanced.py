import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.samplers.balanced import BalancedSampler
from tests.support.cases import cases
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/detectors/parts/targets", "samplers")


@cases(*CASES.values())
def test_golden_counts(*, case):
    params = case.params
    groups = [params["num_positives"], params["num_negatives"], params["num_ignored"]]
    kinds = np.repeat([0, 1, 2], groups)
    kinds = np.stack([np.random.default_rng(seed).permutation(kinds) for seed in range(5)])
    sampler = BalancedSampler(positive_fraction=params["positive_fraction"])
    drawn = sampler.sample(tf.constant(kinds < 2), tf.constant(kinds == 0), params["batch_size"]).numpy()
    counts = {tuple(int((kinds[i][drawn[i]] == kind).sum()) for kind in range(3)) for i in range(5)}
    assert counts == {tuple(outcome) for outcome in case.facts["outcomes_pos_neg_ignored"]}


def test_without_a_size_all_positives_and_their_share_of_negatives():
    positive = tf.constant([[True] * 5 + [False] * 95, [False] * 100])
    drawn = BalancedSampler(positive_fraction=0.25).sample(tf.ones([2, 100], tf.bool), positive).numpy()
    assert drawn[0, :5].all()
    assert drawn[0, 5:].sum() == 15
    assert not drawn[1].any()


def test_the_choice_is_random():
    positive, candidates = tf.zeros([1, 1000], tf.bool), tf.ones([1, 1000], tf.bool)
    sampler = BalancedSampler(positive_fraction=0.5)
    first, second = (sampler.sample(candidates, positive, 100).numpy() for _ in range(2))
    assert first.sum() == second.sum() == 100
    assert (first != second).any()
