"""How checkpoints of the field name the variables of a family's detectors."""

from detection_core.training.checkpoint_names import CheckpointNames, Naming


def test_the_format_chooses_the_names():
    objects, named = (
        Naming(kinds={}, detector=d, classifier=("c/",), heads="heads") for d in ("model/", "Model/")
    )
    names = CheckpointNames(object_based=objects, name_based=named)
    assert names.naming(named=False) is objects and names.naming(named=True) is named
