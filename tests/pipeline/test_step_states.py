import json

from detection_core.artifacts.run_info import STEP_STATES, StepInfo
from pipeline.kubeflow.step_state import word_of
from pipeline.step_states import StepStatus


def test_a_record_holds_every_state_of_one_machine_and_of_kubeflow_as_its_word():
    for state in map(StepStatus, STEP_STATES):
        assert StepInfo(id="a", component="a", state=state).state == str(state)
    assert json.dumps([*StepStatus][:2]) == '["not run", "pending"]'
    # The names of V2beta1RuntimeState in kfp_server_api 2.17.
    for name in ("PENDING", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "CANCELING", "CANCELED"):
        assert isinstance(word_of(name), StepStatus)
    assert word_of("PAUSED") == "paused", "which is one of runs alone"
    assert word_of(None) is StepStatus.PENDING
