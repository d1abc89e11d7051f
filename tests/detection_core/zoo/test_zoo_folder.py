"""Every config of the model zoo's folder: it passes the checks, or is refused with the reason."""

from detection_core.errors import ConfigError
from detection_core.zoo.networks import find_model, list_models
from tests.support.zoo_configs import FOLDER_CONFIGS, config_problems, config_rows, folder_config


def _built(name):
    """Whether the networks' files know a name as a network, and not as one that is not built."""
    try:
        return bool(find_model(name))
    except ConfigError:
        return False


def test_every_config_of_the_folder_is_valid_or_refused_as_not_built():
    assert len(FOLDER_CONFIGS) == 40
    found = {name: config_problems(folder_config(name)) for name in FOLDER_CONFIGS}
    assert not {name: problems for name, problems in found.items() if problems and _built(name)}
    refused = {name for name, problems in found.items() if problems}
    assert refused == {name for name in FOLDER_CONFIGS if not _built(name)}
    deepmac = {name for name in FOLDER_CONFIGS if name.startswith("center_net_deepmac_")}
    assert len(deepmac) == 4 and deepmac <= refused
    for name in deepmac:
        problem = found[name][0]
        assert problem.path == "model.center_net.deepmac_mask_estimation"
        assert "DeepMAC's second network" in problem.message


def test_rows_name_archives_and_files():
    rows = {name: rest for name, *rest in config_rows()}
    ssd = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
    assert rows[ssd] == ["ssd", f"{ssd}.tar.gz", "yes", ""]
    padded = "centernet_hourglass104_512x512_coco17_tpu-8"
    archive = "centernet_hg104_512x512_coco17_tpu-8.tar.gz"
    assert rows[padded] == ["center_net", archive, "fixed_shape_resizer", ""]
    masks = "mask_rcnn_inception_resnet_v2_1024x1024_coco17_gpu-8"
    assert rows[masks] == ["faster_rcnn", f"{masks}.tar.gz", "no", ""]
    archives = {row[1] for row in rows.values()} - {""}
    assert archives == {model.archive for model in list_models() if model.config}
