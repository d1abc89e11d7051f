import hypothesis
import hypothesis.strategies as st
import numpy as np

from detection_core.ops.leading import NO_CANDIDATE, leading_candidates


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 5)),
    levels=st.integers(1, 200),
    threshold=st.sampled_from([0.0, 0.3, 2.0]),
    most=st.tuples(st.integers(1, 50), st.integers(1, 60)),
)
def test_is_the_beginning_of_all_candidates_in_order(seed, shape, levels, threshold, most):
    scores = np.float32(np.random.default_rng(seed).integers(0, levels + 1, shape) / levels)
    found = leading_candidates(scores, threshold, *most)
    anchors = found.anchors.numpy()
    for image, own in enumerate(scores):
        rows = [
            (-own[anchor, label], label, anchor)
            for anchor in range(shape[1])
            for label in range(shape[2])
            if own[anchor, label] > np.float32(threshold)
        ]
        count = int(np.sum(found.scores[image] > NO_CANDIDATE))
        places = found.places[image, :count].numpy()
        listed = zip(
            -found.scores[image, :count].numpy(),
            places // anchors.shape[1],
            anchors[image][places % anchors.shape[1]],
            strict=True,
        )
        assert [tuple(row) for row in listed] == sorted(rows)[:count]
        if found.complete[image]:
            assert count == len(rows)
        elif len(set(own.max(axis=1))) == shape[1]:  # no two anchors alike
            assert count >= min(*most, len(rows)) - 1


def test_all_of_few_candidates_are_found():
    scores = np.zeros((1, 1000, 4), np.float32)
    scores[0, [7, 900, 12], [3, 0, 3]] = [0.5, 0.5, 0.75]
    found = leading_candidates(scores, 0.1, 16, 16)
    assert found.complete[0]
    places = found.places[0, :3].numpy()
    assert list(places // 16) == [3, 0, 3]
    assert list(found.anchors.numpy()[0][places % 16]) == [12, 900, 7]
