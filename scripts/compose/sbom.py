"""sbom.py - is a document of scripts/sbom one of SPDX 2.3, and does it list what there is?

The happy path: check() returns the number of packages. Failure modes: an AssertionError that names
what is missing, too much, or not as the specification has it.
"""

import json
import re

FIELDS = {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed", "licenseConcluded",
          "licenseDeclared", "copyrightText"}
KINDS = {"DESCRIBES", "CONTAINS", "DYNAMIC_LINK", "STATIC_LINK"}


def check_form(document):
    """The identifiers of the packages; what SPDX demands is there."""
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
    assert document["SPDXID"] == "SPDXRef-DOCUMENT" and document["documentNamespace"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"])
    assert document["creationInfo"]["creators"]
    ids = [package["SPDXID"] for package in document["packages"]]
    assert len(ids) == len(set(ids)), "an identifier comes twice"
    for package in document["packages"]:
        assert FIELDS <= set(package), f"{package['name']} lacks {FIELDS - set(package)}"
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package["SPDXID"]), package["SPDXID"]
    for relation in document["relationships"]:
        assert relation["relationshipType"] in KINDS, relation
        for end in ("spdxElementId", "relatedSpdxElement"):
            assert relation[end] in {*ids, "SPDXRef-DOCUMENT"}, relation
    return set(ids)


def check(text, installed, libraries):
    """installed: what dpkg-query has, {name: version}; libraries: packages that leafd loads."""
    document = json.loads(text)
    ids = check_form(document)
    listed = {package["name"]: package["versionInfo"] for package in document["packages"]
              if package["SPDXID"].startswith("SPDXRef-deb-")}
    assert listed == installed, f"not as installed: {set(listed.items()) ^ set(installed.items())}"
    linked = {relation["relatedSpdxElement"] for relation in document["relationships"]
              if relation["relationshipType"] == "DYNAMIC_LINK"}
    wanted = {f"SPDXRef-deb-{re.sub('[^A-Za-z0-9.-]', '-', name)}" for name in libraries}
    assert linked == wanted, f"linked: {linked ^ wanted}"
    related = {relation["relatedSpdxElement"] for relation in document["relationships"]}
    assert related == ids, f"in no relation: {ids - related}"
    return len(ids)


def installed_of(text):
    """{name: version} of lines "installed name version"."""
    rows = (line.split() for line in text.splitlines())
    return {row[1]: row[2] for row in rows if row and row[0] == "installed"}
