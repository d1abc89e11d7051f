from component_specs import QuantizationRewriterJob, TrainerJob
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("quantization_rewriter", QuantizationRewriterJob) == {
        "examples": "Examples",
        "model": "Model",
        "pipeline_config": "PipelineConfig",
        "quantized_model": "Model",
        "quantized_run": "ModelRun",
        "quantization": "QuantizationReport",
    }


def test_overrides_keep_the_order_in_which_they_are_applied():
    overrides = {"graph_rewriter": "{}", "batch_size": 2}
    texts = carried(QuantizationRewriterJob, overrides=overrides)
    assert texts["overrides"] == '{"graph_rewriter": "{}", "batch_size": 2}'


def test_checkpoints_are_as_frequent_as_trainer_s():
    assert carried(QuantizationRewriterJob)["checkpoint_minutes"] == carried(TrainerJob)["checkpoint_minutes"]
