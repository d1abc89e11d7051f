from detection_core.config.load import load_pipeline_config
from detection_core.config.split_configs import SplitConfigPaths, load_split_configs
from detection_core.config.text.text_proto import format_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import config_refused
from tests.support.configs import PYRAMID, TWO_STAGE


def write_parts(config, folder):
    def write(name, message):
        (folder / name).write_text(format_message(message))
        return str(folder / name)

    readers = [write(f"eval_{i}", reader) for i, reader in enumerate(config.eval_input_reader)]
    singles = ("model", "train_config", "train_input_reader", "eval_config", "graph_rewriter")
    parts = {name: write(name, getattr(config, name)) for name in singles if config.HasField(name)}
    return SplitConfigPaths(**parts, eval_input_readers=tuple(readers))


def test_parts_make_the_whole_and_an_error_names_its_file(tmp_path):
    for path in (PYRAMID, TWO_STAGE):
        config = load_pipeline_config(path)
        assert load_split_configs(write_parts(config, tmp_path)) == config
    assert load_split_configs(SplitConfigPaths()) == TrainEvalPipelineConfig()
    (tmp_path / "train").write_text("batch_size: 3")
    config = load_split_configs(SplitConfigPaths(train_config=str(tmp_path / "train")))
    assert config.train_config.batch_size == 3
    (tmp_path / "model").write_text("ssd {\n num_clases: 3 }")
    wrong = SplitConfigPaths(model=str(tmp_path / "model"))
    error = config_refused(r"ssd\.num_clases", load_split_configs, wrong)
    assert error.where == f"{tmp_path / 'model'}:2"
    missing = SplitConfigPaths(eval_config=str(tmp_path / "none"))
    config_refused("cannot read the EvalConfig message", load_split_configs, missing)
