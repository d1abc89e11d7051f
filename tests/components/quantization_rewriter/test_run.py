import json

import pytest

from component_specs import QuantizationRewriterJob
from components.quantization_rewriter.run import run
from detection_core.artifacts.detector import read_info
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import write_detector
from tests.support.tiny_training import config_text, write_examples

OUTPUTS = ("quantized_model", "quantized_run", "quantization")


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    root = tmp_path_factory.mktemp("rewriter")
    write_examples(root / "examples", images=4)
    config = parse_pipeline_config(config_text())
    labels = label_map_from_names(["dark", "bright"])
    write_detector(build_detector(config.model), config, labels, str(root / "model"))
    return root


def job(artifacts, config: str, overrides: dict[str, str] | None = None) -> QuantizationRewriterJob:
    (artifacts / "config").mkdir(exist_ok=True)
    (artifacts / "config" / "pipeline.config").write_text(config)
    return QuantizationRewriterJob(
        examples=str(artifacts / "examples"),
        model=str(artifacts / "model"),
        pipeline_config=str(artifacts / "config"),
        overrides=overrides or {},
        work_dir=str(artifacts / "work"),
        **{name: str(artifacts / name) for name in OUTPUTS},
    )


def test_without_a_graph_rewriter_block_the_error_says_what_to_add(artifacts):
    with pytest.raises(ConfigError, match=r"graph_rewriter.*add"):
        run(job(artifacts, config_text(2)))
    assert not any((artifacts / name).exists() for name in OUTPUTS)


def test_every_output_is_filled(artifacts):
    properties = run(job(artifacts, config_text(2), {"graph_rewriter": "{ quantization { delay: 0 } }"}))
    assert properties["steps"] == 2 and properties["coverage"] == 1.0 and properties["not_quantized"] == 0
    assert read_info(str(artifacts / "quantized_model")).kind == "quantized"
    assert (artifacts / "quantized_run" / "pipeline.config").exists()
    record = json.loads((artifacts / "quantization" / "quantization.json").read_text())
    assert record["settings"]["delay"] == 0 and record["quantized"]
