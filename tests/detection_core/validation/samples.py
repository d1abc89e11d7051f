"""Examples as the checks read them, and what a check finds."""

from detection_core.data.label_map import label_map_from_names
from detection_core.validation.checks import FindingList, make_limits
from detection_core.validation.labelled_images import parse_record
from tests.support.made_examples import CLASSES, Made, encode

LABELS = label_map_from_names(list(CLASSES))


def labelled(number=0, made=None, **fields):
    """An image as it is read from its record."""
    return parse_record(encode(made or Made(**fields), number), number, LABELS)


def findings_of(check, *arguments, **limits):
    """Call a check, which adds to a list of findings, and return the list."""
    findings = FindingList(make_limits(limits))
    check(*arguments, findings)
    return findings


def found_by(check, *arguments, **limits):
    """What a check finds: id to finding."""
    return {found.id: found for found in findings_of(check, *arguments, **limits).findings()}
