import pytest

from component_specs import ConfigGenJob
from component_specs.annotations import encode_parameters
from components.config_gen.run import run
from components.runtime.bind import bind_arguments
from detection_core.config.load import load_config, parse_pipeline_config
from detection_core.config.text.text_proto import format_message
from detection_core.errors import ConfigError
from tests.support.tiny_training import config_text


def test_the_config_comes_out_laid_out_and_equal(tmp_path):
    config = parse_pipeline_config(config_text())
    text, out = format_message(config, one_line=True), str(tmp_path / "out")
    assert "\n" not in text.strip()
    assert run(ConfigGenJob(text=text, pipeline_config=out)) == {"model": "ssd"}
    assert (tmp_path / "out" / "pipeline.config").read_text() == format_message(config)
    assert load_config(f"{out}/pipeline.config") == config
    # A long one is packed on its way.
    config.train_input_reader.tf_record_input_reader.input_path.extend(f"shard-{i}" for i in range(2000))
    job = ConfigGenJob(text=format_message(config, one_line=True), pipeline_config=out)
    text = encode_parameters(job)["text"]
    assert text.startswith("bz2:")
    run(bind_arguments(ConfigGenJob, ["--text", text, "--pipeline_config", out]))
    assert load_config(f"{out}/pipeline.config") == config
    with pytest.raises(ConfigError, match=r"text: expected a pipeline\.config, found not a packed text"):
        bind_arguments(ConfigGenJob, ["--text", text[:-8], "--pipeline_config", str(tmp_path / "cut")])


def test_a_text_that_is_no_config_is_one_message(tmp_path):
    with pytest.raises(ConfigError, match=r"text"):
        run(ConfigGenJob(text="model { sdd {} }", pipeline_config=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()
