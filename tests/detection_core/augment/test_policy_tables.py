from detection_core.augment.policies import OPERATIONS
from detection_core.augment.policy_tables import POLICIES
from tests.support.cases import cases


@cases(*POLICIES)
def test_a_policy_names_known_operations_with_probabilities_and_levels(*, name):
    for sub_policy in POLICIES[name]:
        assert sub_policy
        for operation, probability, level in sub_policy:
            assert (
                operation in OPERATIONS
                and 0.0 <= probability <= 1.0
                and 0 <= level <= 10 + 5 * (name == "randaug")
            )


def test_there_are_the_policies_of_the_paper_s_code():
    """Four, as in google/automl and tensorflow/models: v0 is the one that the paper describes."""
    assert {"v0", "v1", "v2", "v3"} <= set(POLICIES)
    assert len(POLICIES["v0"]) == 5 and POLICIES["v1"][:5] == POLICIES["v0"]
