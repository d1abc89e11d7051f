import json

import pytest

from component_specs import QuantizationRewriterJob
from components.quantization_rewriter.run import run
from detection_core.artifacts.detector import read_info
from detection_core.errors import ConfigError
from tests.support.component_chain import plain_config, untrained
from tests.support.tiny_training import write_examples

OUTPUTS = ("quantized_model", "quantized_run", "quantization")


@pytest.mark.slow
def test_every_output_is_filled_and_without_a_graph_rewriter_block_the_error_says_what_to_add(tmp_path):
    write_examples(tmp_path / "examples", images=2)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "pipeline.config").write_text(plain_config(1))

    def job(**overrides):
        return QuantizationRewriterJob(
            examples=str(tmp_path / "examples"),
            model=untrained(),
            pipeline_config=str(tmp_path / "config"),
            overrides=overrides,
            work_dir=str(tmp_path / "work"),
            **{name: str(tmp_path / name) for name in OUTPUTS},
        )

    with pytest.raises(ConfigError, match=r"graph_rewriter.*add"):
        run(job())
    assert not any((tmp_path / name).exists() for name in OUTPUTS)
    properties = run(job(graph_rewriter="{ quantization { delay: 0 } }"))
    assert properties["steps"] == 1 and properties["coverage"] == 1.0 and properties["not_quantized"] == 0
    assert read_info(str(tmp_path / "quantized_model")).kind == "quantized"
    assert (tmp_path / "quantized_run" / "pipeline.config").exists()
    record = json.loads((tmp_path / "quantization" / "quantization.json").read_text())
    assert record["settings"]["delay"] == 0 and record["quantized"]
