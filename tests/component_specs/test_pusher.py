from component_specs import PusherJob
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("pusher", PusherJob) == {
        "model": "Model",
        "blessing": "ModelBlessing",
        "evaluation": "ModelEvaluation",
        "quantized_blessing": "ModelBlessing?",
        "tflite": "TFLiteModel?",
        "tflite_blessing": "ModelBlessing?",
        "statistics": "ExampleStatistics?",
        "pushed_model": "PushedModel",
    }


def test_five_versions_are_kept_unless_told_otherwise():
    assert carried(PusherJob)["keep_versions"] == 5
    assert carried(PusherJob, keep_versions=0)["keep_versions"] == 0


def test_a_job_of_its_own_belongs_to_no_run():
    texts = carried(PusherJob)
    assert texts["run_key"] == texts["baseline_version"] == texts["push_token"] == ""
