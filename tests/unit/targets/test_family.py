"""Families of targets: only its own folder knows an engine by name, and a second engine needs no other change."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.registry import families, family_of, parse, short_name

ROOT = Path(__file__).parents[3]

ENGINE = "sglang"

OWN = ("sim/targets/sglang", "sim/targets/mutants")
"""Its adapter, and defects of its sources, which are data."""

_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def named(source: str) -> list[int]:
    """Lines of code that name the engine: in an identifier, or in a string that is no docstring.

    In prose the engine has its proper name: ``SGLang PR 24036`` asks for nothing.
    """
    alone = (it.value for it in ast.walk(ast.parse(source)) if isinstance(it, ast.Expr))
    docstrings = {(it.lineno, it.col_offset) for it in alone if isinstance(it, ast.Constant)}
    lines = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_name = token.type == tokenize.NAME and ENGINE in token.string.lower()
        is_string = token.type in _STRINGS and ENGINE in token.string and token.start not in docstrings
        if is_name or is_string:
            lines.append(token.start[0])
    return lines


def modules() -> dict[str, str]:
    """Every module outside the engine's own folders, by its path."""
    paths = (path for folder in ("models", "sim") for path in sorted((ROOT / folder).rglob("*.py")))
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path.read_text(encoding="utf-8") for name, path in names.items() if not name.startswith(OWN)}


def test_only_its_family_knows_an_engine_by_name() -> None:
    """No other module asks for the engine, not even the one that registers families."""
    found = {name: named(source) for name, source in modules().items()}
    assert len(found) > 100, "the modules were not read"
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("from ..targets.sglang.fetch import resolve", 1),
        ("x = 1\n_SGLANG = 2", 2),
        ("class SglangDialect: ...", 1),
        ("def f(target):\n    return target.startswith('sglang')", 2),
        ("def f(version):\n    return f'sglang=={version}'", 2),
        ('"""Says."""\nNAME = "sglang"', 2),
        ('"""Says."""\nNAMES = (\n    "sglang",\n)', 3),
    ],
)
def test_a_planted_name_is_seen(source: str, line: int) -> None:
    """Each way to name the engine is noticed: in an import, an identifier, a string."""
    assert set(named(source)) == {line}


@pytest.mark.parametrize(
    "source",
    [
        '"""How sglang does it."""',
        'def f():\n    """See ``sglang.srt``."""',
        'X = 1\n"""Of sglang."""',
        "x = 1  # as sglang has it",
        'REASON = "(SGLang PRs 24138, 27091)"',
    ],
)
def test_prose_may_name_the_engine(source: str) -> None:
    """Comments, docstrings and references are for people."""
    assert named(source) == []


TOY = """
from staleloc.sim.targets.embedded import Embedded


class Toy(Embedded):
    name = title = "toy"
    forms = ("toy",)

    def load(self, spec, rewrite=None):
        target = super().load(spec, rewrite)
        target.name = spec.text
        build = target.build

        def build_spoilt(config):
            build(config)
            target.free_swa = lambda locs: None

        target.build = build_spoilt
        return target
"""
"""An engine of another family: the embedded one, but it never frees the SWA slots of evicted tokens."""


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the program where a package with `TOY` is installed: a module and its entry point."""
    entry = tmp_path / "toy-1.dist-info"
    entry.mkdir()
    (tmp_path / "toy_targets.py").write_text(TOY, encoding="utf-8")
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n", encoding="utf-8")
    (entry / "entry_points.txt").write_text("[staleloc.targets]\ntoy = toy_targets:Toy\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return warm.run(["-m", "staleloc.sim", *arguments], tmp_path, PYTHONPATH=path)

    return run


def test_a_second_engine_is_fuzzed_by_its_name(toy: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A campaign finds its bug in worker processes; the embedded target, played on the same tapes, has none."""
    found = toy("fuzz", "--target", "toy", "--tapes", "40", "--workers", "1", "--first")
    assert found.returncode == 1, found.stderr
    assert " in toy" in found.stdout
    assert toy("fuzz", "--target", "builtin", "--tapes", "40", "--workers", "1").returncode == 0


def test_a_second_engine_is_listed(toy: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """It stands behind those that come along, in the list of targets and where a name is not understood."""
    assert [line.split()[0] for line in toy("targets", "list").stdout.splitlines()].count("toy") == 1
    assert "sglang@PATH or toy (see" in toy("fuzz", "--target", "nonsense").stderr


def test_a_family_that_cannot_be_loaded_is_named(
    tmp_path: Path, toy: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A broken installation is one line, with the entry point to blame."""
    (tmp_path / "toy_targets.py").write_text("Toy = nothing", encoding="utf-8")
    said = toy("fuzz", "--target", "builtin", "--tapes", "1")
    assert said.returncode == 2
    assert "the targets of toy (toy_targets:Toy) cannot be loaded: NameError" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("text", "family", "short"),
    [
        ("builtin", "builtin", "builtin"),
        ("builtin:memo", "builtin", "builtin:memo"),
        ("sglang==0.5.12", "sglang", "0.5.12"),
        ("sglang@/x", "sglang", "sglang@/x"),
    ],
)
def test_a_name_leads_to_its_family(text: str, family: str, short: str) -> None:
    """The first word decides; a release is known by its version."""
    assert parse(text).family.name == family
    assert short_name(text) == short


@pytest.mark.parametrize("text", ["builtins", "builtin:", "builtin@", "sglang", "sglang==", "sglang@", "vllm==1", ""])
def test_a_name_of_no_target_is_refused(text: str) -> None:
    """The message lists all forms, those of every family."""
    with pytest.raises(TargetError, match="unknown target") as error:
        parse(text)
    assert all(form in str(error.value) for family in families() for form in family.forms)


def test_families_are_told_apart() -> None:
    """No two have one name, and their modules load no torch."""
    names = [family.name for family in families()]
    assert len(names) == len(set(names))
    assert family_of("vllm==1") is None
    program = "import sys, staleloc.sim.targets.registry as it; it.families(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
