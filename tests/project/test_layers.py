"""The import contracts in pyproject.toml hold for the tree, and each of them catches a planted violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Gives a copy of the sources that a test may spoil."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(tree: Path) -> tuple[int, str]:
    # PYTHONPATH comes before the editable install, so the copy is what is examined.
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def plant(tree: Path, module: str, source: str) -> None:
    file = tree / "src" / Path(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in list(file.parents)[: len(module.split(".")) - 1]:
        (folder / "__init__.py").touch()
    file.write_text(source)


def test_the_real_tree_keeps_every_contract(tree: Path) -> None:
    code, report = lint_imports(tree)
    assert code == 0, report
    assert " 0 broken" in report


@pytest.mark.parametrize(
    ("module", "source", "contract", "named"),
    [
        (
            "swath.domain.planted",
            "import swath.backends.sqlite\n",
            "Imports go down the layers",
            "swath.domain.planted -> swath.backends.sqlite",
        ),
        ("swath.utils", "", "Imports go down the layers", "swath.utils"),
        (
            "swath.backends.aws.planted",
            "import swath.backends.sqlite\n",
            "Back ends do not know each other",
            "swath.backends.aws.planted -> swath.backends.sqlite",
        ),
        (
            "swath.pipeline.finish.planted",
            "import swath.pipeline.worker\n",
            "Stages of the pipeline import only forward",
            "swath.pipeline.finish.planted -> swath.pipeline.worker",
        ),
        (
            "swath.fetch.sites.planted",
            "import swath.fetch.http\n",
            "Fetching imports from the browser down to the sites",
            "swath.fetch.sites.planted -> swath.fetch.http",
        ),
        (
            "swath.pipeline.planted",
            "import sqlite3\n",
            "Only the SQLite back end speaks SQLite",
            "swath.pipeline.planted -> sqlite3",
        ),
        (
            "swath.scrapers.planted",
            "import wreq\n",
            "Only the HTTP layer knows the HTTP client",
            "swath.scrapers.planted -> wreq",
        ),
        (
            "swath.entrypoints.planted",
            "import obstore\n",
            "Only the AWS back end knows its libraries",
            "swath.entrypoints.planted -> obstore",
        ),
        (
            "swath.sdk.planted",
            "from rich.console import Console\n",
            "Only the entry points know the terminal",
            "swath.sdk.planted -> rich",
        ),
    ],
    ids=["upwards", "unplaced", "backends", "stages", "fetch", "sqlite3", "wreq", "aws", "terminal"],
)
def test_a_planted_violation_is_named(tree: Path, module: str, source: str, contract: str, named: str) -> None:
    plant(tree, module, source)
    code, report = lint_imports(tree)
    assert code == 1, report
    assert any(contract in line and "BROKEN" in line for line in report.splitlines()), report
    assert named in report


def test_a_planted_cycle_is_named(tree: Path) -> None:
    plant(tree, "swath.domain.planted_one", "import swath.domain.planted_two\n")
    plant(tree, "swath.domain.planted_two", "import swath.domain.planted_one\n")
    code, report = lint_imports(tree)
    assert code == 1, report
    assert any("No import cycles" in line and "BROKEN" in line for line in report.splitlines()), report
    assert "planted_one" in report
