"""Write the bill of materials of an image, from the lock that its packages come from, in two forms.

    .venv/bin/python docker/sbom.py LOCK IMAGE BASE BASE_DIGEST OUTPUT

OUTPUT.cdx.json is CycloneDX 1.6, OUTPUT.spdx.json is SPDX 2.3. Each lists detflow, its Python packages with
the hashes of their files, and the base image by digest. What the base image holds is not in it: a scanner of
images, such as syft, sees that.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
VERSION = re.compile(r'^version = "(.*)"', re.MULTILINE)
ROOT = Path(__file__).parents[1]


def packages(lock: str) -> list[Component]:
    """Return the packages of a lock file, in its order."""
    found = []
    for block in re.split(r"\n(?=\S)", lock):
        pin = PIN.match(block)
        if pin is None:
            continue
        name, version = pin.groups()
        purl = PackageURL("pypi", name=re.sub(r"[-_.]+", "-", name).lower(), version=version)
        # One of these files is installed: which one is the choice of pip on the platform.
        hashes = [
            HashType(alg=HashAlgorithm.SHA_256, content=h) for h in re.findall(r"sha256:(\w{64})", block)
        ]
        found.append(
            Component(
                name=name,
                version=version,
                type=ComponentType.LIBRARY,
                purl=purl,
                bom_ref=purl.to_string(),
                hashes=hashes,
                licenses=[licence] if (licence := licence_of(name, version)) else [],
            )
        )
    return found


def licence_of(name: str, version: str) -> LicenseExpression | DisjunctiveLicense | None:
    """Return the licence as the package states it, where this version is installed here."""
    try:
        stated = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if stated["Version"] != version:
        return None
    if stated["License-Expression"]:
        return LicenseExpression(stated["License-Expression"])
    line = (stated["License"] or "").strip()
    return DisjunctiveLicense(name=line) if line and "\n" not in line else None


def bill(lock: str, image: str, base: str, base_digest: str) -> Bom:
    """Return the bill of an image; the same arguments give the same one."""
    version = VERSION.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    own = PackageURL("generic", name="detflow", version=version[1])
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, "\0".join((lock, image, base, base_digest))))
    bom.metadata.timestamp = None
    bom.metadata.component = Component(name=image, type=ComponentType.CONTAINER, bom_ref="image")
    detflow = Component(
        name="detflow",
        version=version[1],
        type=ComponentType.APPLICATION,
        purl=own,
        bom_ref=own.to_string(),
        licenses=[LicenseExpression("Apache-2.0")],
    )
    under = Component(name=base, version=base_digest, type=ComponentType.CONTAINER, bom_ref="base-image")
    found = packages(lock)
    for component in (detflow, under, *found):
        bom.components.add(component)
    bom.register_dependency(bom.metadata.component, [detflow, under])
    bom.register_dependency(detflow, found)
    return bom


def as_cyclonedx(bom: Bom) -> str:
    """Return a bill as CycloneDX 1.6."""
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def as_spdx(bom: Bom) -> str:
    """Return a bill as SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3)."""
    image = bom.metadata.component
    packages = {c.bom_ref.value: _spdx_package(c) for c in (image, *sorted(bom.components))}
    contains = [
        (packages[d.ref.value]["SPDXID"], packages[inner.ref.value]["SPDXID"])
        for d in bom.dependencies
        for inner in d.dependencies
    ]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image.name,
        "documentNamespace": f"urn:uuid:{bom.serial_number}",
        # Fixed, so that the same image has the same bill.
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: detflow"]},
        "packages": list(packages.values()),
        "relationships": [
            _spdx_relationship("SPDXRef-DOCUMENT", "DESCRIBES", packages["image"]["SPDXID"]),
            *(_spdx_relationship(outer, "CONTAINS", inner) for outer, inner in sorted(contains)),
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _spdx_package(component: Component) -> dict[str, object]:
    stated = [licence.value for licence in component.licenses if isinstance(licence, LicenseExpression)]
    kinds = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl"}
    purls = [component.purl.to_string()] if component.purl else []
    # SPDX's checksum is that of one file; pip installs one of several.
    files = [f"SHA256: {h.content}" for h in component.hashes]
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", component.bom_ref.value),
        "name": component.name,
        "versionInfo": component.version or "",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": stated[0] if stated else "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "comment": f"one of the files with {', '.join(files)}" if files else "",
        "externalRefs": [kinds | {"referenceLocator": purl} for purl in purls],
    }


def _spdx_relationship(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def main(lock: str, image: str, base: str, base_digest: str, output: str) -> None:
    """Write the bill."""
    made = bill(Path(lock).read_text(encoding="utf-8"), image, base, base_digest)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(f"{output}.cdx.json").write_text(as_cyclonedx(made), encoding="utf-8")
    Path(f"{output}.spdx.json").write_text(as_spdx(made), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
