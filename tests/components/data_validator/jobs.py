"""Jobs of DataValidator on made examples."""

from component_specs import DataValidatorJob
from detection_core.storage import files
from tests.support.made_examples import Made, write_examples
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

BOTH = Made(boxes=((0.1, 0.1, 0.5, 0.5), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "dog"))


def job_of(tmp_path, splits, *, shards=1, **given):
    """Write examples and return the job that validates them."""
    examples = write_examples(tmp_path / "examples", splits, shards=shards)
    names = ("statistics", "schema", "anomalies", "blessing", "pipeline_config")
    places = {name: str(tmp_path / name) for name in names}
    files.write_text(str(tmp_path / "pipeline_config" / "pipeline.config"), config_text(10, PLAIN))
    # To know the anchors a network is built, which takes seconds; one test is about them.
    checks = {"unmatched_boxes": {"severity": "off"}, **given.pop("checks", {})}
    return DataValidatorJob(examples=examples, checks=checks, **places, **given)
