"""What runs at GitHub: workflows and the action are well-formed, and the action's steps do what they should."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.torch.capture import NEWEST_KNOWN
from support.small_models import branches, graph_file

yaml = pytest.importorskip("yaml", reason="pip install pyyaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
pytestmark = pytest.mark.skipif(not ACTION.exists(), reason="needs a clone")


def steps(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a workflow's jobs, or of an action."""
    jobs = document.get("jobs", {"": document.get("runs")})
    return [step for job in jobs.values() for step in job["steps"]]


def test_workflows_are_well_formed():
    """YAML with triggers and jobs; every step runs or uses something of a fixed version; no input in a script."""
    assert {path.stem for path in WORKFLOWS} >= {"wheels", "test"}
    for path in (*WORKFLOWS, ACTION):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path is not ACTION:
            assert document[True], path  # YAML reads `on` as true
            assert document["permissions"] == {"contents": "read"}, path
            assert all("runs-on" in job for job in document["jobs"].values()), path
        for step in steps(document):
            assert ("run" in step) != ("uses" in step), step
            assert re.fullmatch(r"[\w./-]+@(v\d[\d.]*|release/v1)", step.get("uses", "a/b@v1")), step
            assert "${{" not in step.get("run", ""), "inputs go by env: a branch's name is no program"


def test_an_action_says_how_its_scripts_run():
    """A composite action names the shell of every script, and all inputs have defaults."""
    document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert document["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in steps(document) if "run" in step)
    assert all({"description", "default"} <= set(entry) for entry in document["inputs"].values())
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(document["inputs"])


def test_wheels_are_built_for_what_is_promised():
    """The Pythons of the classifiers, on Linux and macOS."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = [re.sub(r"\D", "", c) for c in project["project"]["classifiers"] if re.search(r"3\.\d+$", c)]
    assert project["tool"]["cibuildwheel"]["build"].split() == [f"cp{v}-*" for v in versions]
    text = (ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8")
    assert "macos" in text
    assert "ubuntu" in text
    assert project["tool"]["cibuildwheel"]["manylinux-x86_64-image"].startswith("manylinux")


def test_training_steps_are_tested_on_the_torch_that_is_known_and_on_the_newest():
    """The private functions that tracing takes hold for one version: that one, and whatever has come since."""
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["torch"]
    known = ".".join(map(str, NEWEST_KNOWN))
    assert job["strategy"]["matrix"]["torch"] == [f"=={known}.*", f">={known}"]
    assert re.search(r"'torch\$\(TORCH\)' .*timm.* transformers", recipe("torch"))


@pytest.mark.parametrize(("name", "needs"), [
    ("torch", r"import_module\(.torch.\)|importorskip\(.torch.|\.md.: .torch."),
    ("extras", r"importorskip\(.(distributed|dask|pyarrow|matplotlib)|find_spec\(.(matplotlib|nbclient)"),
])  # fmt: skip
def test_what_takes_more_than_the_extra_test_is_run_by_a_job_that_has_it(name: str, needs: str):
    """Every file with tests that skip without a package is in the job's recipe."""
    paths = re.findall(r"[\w/]*tests/[\w/.]+", recipe(name))
    assert all((ROOT / path).exists() for path in paths)
    tests = [path for tree in ("tests", "packages/research/tests") for path in (ROOT / tree).rglob("test_*.py")]
    files = {path for path in tests if re.search(needs, path.read_text(encoding="utf-8"))}
    assert files
    missing = {path for path in files if not any(path.is_relative_to(ROOT / listed) for listed in paths)}
    assert {path.name for path in missing} <= {Path(__file__).name, "test_executorch.py"}
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]
    assert f"make {name}" in [step.get("run") for step in jobs[name]["steps"]]


def recipe(name: str) -> str:
    """Lines of a target of the Makefile."""
    found = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None or shutil.which("bash") is None, reason="needs git and bash")
def test_the_action_fails_a_model_that_outgrew_its_budget(tmp_path: Path):
    """Its two scripts, in a repository of two commits: before it fits, now it does not."""
    origin = tmp_path / "origin"
    origin.mkdir()

    def git(*words: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *settings, *words], cwd=origin, check=True, capture_output=True, text=True).stdout

    model = graph_file(origin, branches())
    (origin / "lowtide.toml").write_text(f'[models."{model.name}"]\nbudget = 150\ntarget = "strict"\n')
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    base = git("rev-parse", "HEAD").strip()
    git("remote", "add", "origin", str(origin))
    document = branches()
    for tensor in document["tensors"]:
        tensor["size"] *= 2
    model.write_text(json.dumps(document))

    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "lowtide").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowtide "$@"\n')
    (bin_folder / "lowtide").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{bin_folder}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "BASE": base,
        "CONFIG": "lowtide.toml", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTHONPATH": os.pathsep.join([str(Path(lowtide.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    scripts = [s["run"] for s in steps(yaml.safe_load(ACTION.read_text(encoding="utf-8"))) if "run" in s][1:]
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    fetch, check = (subprocess.run([*words, script], cwd=origin, env=environment, capture_output=True, text=True,
                                   check=False) for script in scripts)  # fmt: skip
    assert fetch.returncode == 0, fetch.stderr
    assert check.returncode == 4, check.stderr
    assert check.stdout.startswith(f"::error file={model.name},title=lowtide check::cannot fit")
    summary = (tmp_path / "summary.md").read_text()
    assert "| 109 B | 218 B | +109 B (+100.0 %) | 150 B | ❌ cannot fit |" in summary
    assert "```mermaid" in summary
    assert (tmp_path / f"lowtide-reports/{model.name}.html").is_file()
