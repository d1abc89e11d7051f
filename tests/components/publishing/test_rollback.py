from hypothesis import given
from hypothesis import strategies as st

from components.publishing.rollback import predecessor, returned_to, superfluous
from detection_core.artifacts.published import Deployment

_NUMBERS = st.sets(st.integers(1, 9))


def test_the_predecessor_is_the_newest_earlier_one_in_service():
    assert predecessor(Deployment(4, (2,)), [1, 2, 3, 4]) == 3
    assert predecessor(Deployment(3, (2,)), [1, 2, 3]) == 1
    assert predecessor(Deployment(1, (2,)), [1, 2]) is None
    assert predecessor(Deployment(None, ()), [1]) is None
    assert superfluous(Deployment(3, (2,)), [1, 2, 3], keep=2) == [2]
    assert superfluous(Deployment(5, (4,)), [1, 2, 3, 4, 5], keep=3) == [4, 1]
    assert superfluous(Deployment(2, ()), [1, 2], keep=1) == []
    assert superfluous(Deployment(3, ()), [1, 2, 3], keep=0) == []


def test_what_was_rolled_back_stays_so_when_another_rollback_follows():
    deployment = returned_to(Deployment(2, ()), 1, [1, 2])
    assert deployment == Deployment(1, (2,))
    deployment = returned_to(deployment.pointing_at(4), 3, [1, 2, 3, 4])
    assert deployment == Deployment(3, (2, 4))
    assert predecessor(deployment, [1, 2, 3, 4]) == 1


@given(_NUMBERS, _NUMBERS, st.integers(1, 9), st.integers(1, 9))
def test_only_the_target_comes_back_and_nothing_later_stays(known, out, current, target):
    after = returned_to(Deployment(current, tuple(sorted(out))), target, known)
    assert after.version == target
    assert set(after.rolled_back) == (out | {n for n in known if n > target}) - {target}


@given(_NUMBERS, _NUMBERS, st.integers(1, 9), st.integers(0, 9))
def test_the_deployed_one_and_its_predecessor_are_never_superfluous(whole, out, current, keep):
    deployment = Deployment(current, tuple(sorted(out - {current})))
    gone = superfluous(deployment, whole, keep)
    assert not {current, predecessor(deployment, whole)} & set(gone)
    assert len(whole) - len(gone) <= max(keep, 2) or not keep
    assert not gone or len(whole) - len(gone) >= keep
