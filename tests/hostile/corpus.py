"""All kinds of cases, in the order in which they run."""

from tests.hostile import (
    coco_files,
    entries,
    formats,
    given_data,
    images,
    models,
    network,
    places,
    predictions,
    secrets,
    texts,
)

_KINDS = (
    images,
    coco_files,
    formats,
    entries,
    given_data,
    texts,
    places,
    network,
    secrets,
    models,
    predictions,
)


def all_cases():
    """Yield every case.

    Raises:
        ValueError: when two have one name.
    """
    names = set()
    for kind in _KINDS:
        for case in kind.cases():
            if case.name in names:
                raise ValueError(f"expected one case of a name, found two of {case.name}")
            names.add(case.name)
            yield case
