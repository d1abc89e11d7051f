import itertools

from detection_core.augment.policies import OPERATIONS
from detection_core.augment.policy_tables import POLICIES


def test_a_policy_names_known_operations_with_probabilities_and_levels():
    for name, policy in POLICIES.items():
        most = 15 if name == "randaug" else 10
        assert all(policy), name
        for operation, probability, level in itertools.chain(*policy):
            assert operation in OPERATIONS and 0.0 <= probability <= 1.0 and 0 <= level <= most, name
    # Four, as in google/automl and tensorflow/models: v0 is the one that the paper describes.
    assert {"v0", "v1", "v2", "v3"} <= set(POLICIES)
    assert len(POLICIES["v0"]) == 5 and POLICIES["v1"][:5] == POLICIES["v0"]
