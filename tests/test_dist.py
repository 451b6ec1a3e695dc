"""What is shipped: the files of a wheel, the bill of materials, and one version and date everywhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from tools import dist, docs_version, sbom

import dpinfer as dp

ROOT = Path(__file__).parent.parent


def test_a_wheel_holds_the_packages_and_the_demo_alone(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", tmp_path]
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == f"dpinfer-{dp.__version__}-py3-none-any.whl"
    dist.check(wheel)


def test_what_a_wheel_should_not_hold_is_found():
    good = ["dpinfer/__init__.py", dist.DEMO, "dpinfer-0.1.0.dist-info/RECORD", "dpinfer_desk/a.js"]
    bad = [
        "tests/a.py",
        "dpinfer/tests/a.py",
        "dpinfer/data.parquet",
        "docs/x.md",
        "dpinfer/conftest.py",
    ]
    assert dist.foreign([*good, *bad]) == bad


def test_constraints_keep_versions_and_markers():
    lock = "a-b[c]==1.2 \\\n    --hash=sha256:0\nd==3 ; python_version < '3.12' \\\n    --hash=x\n    # via a==1\n"
    assert dist.constraints(lock) == "a-b==1.2\nd==3 ; python_version < '3.12'\n"


def test_the_bill_of_materials_names_every_package_with_its_licence():
    packages = sbom.installed()
    direct = {
        sbom.canonical(Requirement(text).name) for text in sbom.distribution("dpinfer").requires
    }
    assert {"numpy", "scipy", "dp-accounting", "starlette", "rich", "joblib"} <= set(packages)
    assert {"pytest", "dask", "mypy"}.isdisjoint(packages)
    assert packages["dpinfer"] <= direct
    document = sbom.bill(packages)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    parts = [*document["components"], document["metadata"]["component"]]
    assert {part["name"] for part in parts} == set(packages)
    licences = {part["name"]: part["licenses"][0]["license"]["name"] for part in parts}
    assert "not stated" not in licences.values()
    assert licences["dpinfer"] == "Apache-2.0"
    references = {part["bom-ref"] for part in parts}
    for one in document["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= references
    assert json.dumps(sbom.bill(packages)) == json.dumps(document)
    assert sbom.licences(packages).count("\n") == len(packages) + 2


def test_one_version_and_date_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE).groups()
    assert version == dp.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    assert str(citation["date-released"]) == date
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == version


def test_the_recipe_asks_for_what_the_wheel_asks_for():
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))
    needed = set()
    for text in sbom.distribution("dpinfer").requires:
        requirement = Requirement(text)
        marker = requirement.marker
        asked = marker is None or any(marker.evaluate({"extra": one}) for one in ("cli", "report"))
        if asked and sbom.canonical(requirement.name) != "dpinfer":
            needed.add((sbom.canonical(requirement.name), str(requirement.specifier)))
    # packages that conda calls otherwise
    names = {"matplotlib": "matplotlib-base"}
    asked = {tuple(one.split()) for one in recipe["requirements"]["run"]}
    assert {(names.get(name, name), bound) for name, bound in needed} <= asked
    others = {name for name, *_ in asked} - {names.get(name, name) for name, _ in needed}
    assert others == {"python"}


def test_the_documentation_lists_its_versions(tmp_path):
    for name in ("0.9.0", "0.10.0", "assets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("", encoding="utf-8")
    docs_version.index(tmp_path)
    found = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [one["version"] for one in found] == ["0.10.0", "0.9.0"]
    assert [one["aliases"] for one in found] == [["latest"], []]
    assert 'href="0.10.0/index.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert docs_version.this_version() == dp.__version__
