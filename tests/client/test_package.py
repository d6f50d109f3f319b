"""The client as a package of its own: it installs without a network, helps with every command, and needs no Django."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import venv
from argparse import _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest

from bourse_client.command import completion
from bourse_client.command.parser import parser_made
from marketplace.version import VERSION
from tests.client.conftest import Bourse
from tests.client.stub import good, stub_server
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "client"
FILES = sorted((CLIENT / "bourse_client").rglob("*.py"))


def commands(parser: object = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command of the parser, as its words."""
    yield path
    for action in (parser or parser_made())._actions:  # type: ignore[attr-defined]
        if isinstance(action, _SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, (*path, name))


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    """In an environment without ours: what is found there was installed there."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, env=clean, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bourse` of a fresh virtual environment, built and installed without a network."""
    folder = tmp_path_factory.mktemp("package")
    source = shutil.copytree(
        CLIENT, folder / "client", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    venv.create(folder / "fresh", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "fresh" / "bin" / "python"]
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    built = ran(*wheel)
    assert built.returncode == 0, built.stderr
    done = ran(*pip, "install", "--no-deps", *folder.glob("*.whl"))
    assert done.returncode == 0, done.stderr
    return folder / "fresh" / "bin" / "bourse"


@pytest.mark.wide
def test_package_installs_without_a_network_and_its_command_runs(installed: Path, tmp_path: Path) -> None:
    assert ran(installed, "--version").stdout == f"bourse {VERSION}\n"
    job = tmp_path / "job.json"
    job.write_text('{"pool": "main", "epochs": 1}')
    ended = ran(installed, "jobs", "submit", job)
    assert (ended.returncode, ended.stderr) == (
        2,
        "bourse: Run `bourse login` first, or set BOURSE_URL and BOURSE_TOKEN.\n",
    )


def test_every_module_loads_where_nothing_but_the_standard_library_is(installed: Path) -> None:
    """Neither Django, nor the product, nor even PyYAML, which is loaded when a file of YAML is read."""
    names = [".".join(file.relative_to(CLIENT).with_suffix("").parts).removesuffix(".__init__") for file in FILES]
    code = f"""
import importlib, sys
before = set(sys.modules)
for name in {names!r}:
    importlib.import_module(name)
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(new - sys.stdlib_module_names))
"""
    ended = ran(installed.with_name("python"), "-I", "-c", code)
    assert (ended.stdout, ended.stderr) == ("['bourse_client']\n", "")


def test_broken_pipe_is_no_error(installed: Path) -> None:
    ended = ran("bash", "-c", f"set -o pipefail; {installed} completion bash | head -c 1")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: " ".join(words) or "bourse")
def test_every_command_explains_itself(
    bourse: Bourse, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bourse(*words, "--help").status == 0
    help_text = capsys.readouterr().out
    assert help_text.startswith(f"usage: {' '.join(['bourse', *words])} ")


AMOUNTS = ("inf", "1_000", "1e3", " 1", "+1", "1.", ".5", "\N{ARABIC-INDIC DIGIT ONE}", "0", "-1")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("jobs",),
        ("sing",),
        ("jobs", "show", "-3"),
        ("jobs", "show", "1" * 40),
        ("statement", "--month", "2026-13"),
        *(("jobs", "submit", "job.yaml", "--max-price", amount) for amount in AMOUNTS),
        ("statement", "--month", "\N{ARABIC-INDIC DIGIT TWO}026-11"),
        ("jobs", "submit", "job.yaml", "--key", "ü"),
        ("jobs", "list", "--limit", "0"),
        ("jobs", "list", "--sta", "queued"),
    ],
    ids=" ".join,
)
def test_words_that_make_no_command_are_a_mistake(
    bourse: Bourse, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bourse(*words).status == 2
    assert capsys.readouterr().err.startswith("usage: bourse")


def test_completion_knows_every_command_and_is_a_script_of_bash(tmp_path: Path) -> None:
    script = completion.script()
    assert '" jobs submit"' in script
    result = subprocess.run(
        ["bash", "-c", f'{script}\nCOMP_WORDS=(bourse jobs s); COMP_CWORD=2; _bourse; echo "${{COMPREPLY[*]}}"'],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert result.stdout.split() == ["submit", "show"]


def test_fish_is_told_the_same_words_as_bash() -> None:
    script = completion.fish_script()
    for path, words in completion._words(parser_made(), ""):
        assert not words or f'case "{path}"\n            printf "%s\\n" {" ".join(words)}' in script, path
    assert script.count('set path " jobs submit"') == 1


def test_example_of_the_readme_submits_a_job() -> None:
    example = (CLIENT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    with stub_server(good({"id": 7}, status=201)) as stub:
        exec(example.replace("https://bourse.example", stub.address), {})  # noqa: S102  it is what people copy
    (call,) = stub.calls
    assert json.loads(call.body) == {
        "pool": "main",
        "name": "nightly",
        "lane": "instant",
        "spec": {"epochs": 2, "chunks": 4},
    }


@pytest.mark.parametrize("document", ["client/README.md", "docs/guide/client.md", "docs/openapi.yaml"])
def test_an_example_that_knows_no_pool_asks_for_one_gpu(document: str) -> None:
    numbers = re.findall(r"--gpus[ =]([0-9]+)", (ROOT / document).read_text(encoding="utf-8"))
    assert set(numbers) == {"1"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CLIENT)))
def test_only_the_standard_library_and_yaml_are_imported(file: Path) -> None:
    allowed = sys.stdlib_module_names | {"bourse_client", "yaml"}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {name.partition(".")[0] for name in names} <= allowed
