import numpy as np

from detection_core.builders.similarity import SIMILARITIES, build_similarity
from detection_core.protos.region_similarity_calculator_pb2 import RegionSimilarityCalculator
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/ops", "region_similarity")


def test_golden():
    built = [case for case in CASES.values() if case.config]
    for case in built:
        similarity = build_similarity(parsed(RegionSimilarityCalculator, case.config))
        found = similarity(case.inputs["boxes1"], case.inputs["boxes2"]).numpy()
        # Ground truth has score 1; the golden's rows have scores of their own.
        scores = case.inputs.get("scores_of_boxes1", np.ones(len(found), np.float32))
        # The reference divides by the area of an empty box, 0 / 0; ours shares nothing with it.
        expected = np.nan_to_num(case.outputs["similarity"], nan=0.0)
        weighted = found * scores[:, np.newaxis]
        np.testing.assert_allclose(weighted, expected, rtol=1e-5, atol=1e-5, err_msg=case.name)
    assert {case.config.split()[0] for case in built} == set(SIMILARITIES)
