"""What packages may import and what no file may hold. Every rule is also shown to see a planted violation.

The layers are in ``.importlinter``; here is what its contracts cannot say: what is in the standard library, and imports
by name.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAX_LINES = 500

LONGER: dict[str, str] = {}
"""Modules of more lines, each with the reason why it is one idea."""

MODULES = sorted(path for folder in ("models", "sim") for path in (ROOT / folder).rglob("*.py"))

TEST_TOOLS = ("pytest", "_pytest", "unittest", "tests")

# A path of one machine; the folders of a relative path or of an address do not count.
MACHINE_PATH = re.compile(rb"(?<![\w.~/$}*#-])/(?:work|root|tmp|home/\w+)(?![\w-])")


def imports(path: Path, source: str) -> Iterator[str]:
    """The absolute dotted name of everything a module of the checkout imports, wherever in it and however."""
    package = ["staleloc", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                yield from (".".join([*base, *([module] if module else []), name.name]) for name in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def within(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of the packages or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def models_rule(name: str) -> bool:
    """The model is the standard library and itself."""
    return name.partition(".")[0] in sys.stdlib_module_names or within(name, "staleloc.models")


def packages_rule(name: str) -> bool:
    """What is installed does not know how it is tested."""
    return not within(name, *TEST_TOOLS)


PLUGIN = ROOT / "sim" / "gate" / "pytest_plugin.py"
"""What pytest itself loads, by an entry point; nothing of the package imports it."""


RULES = {
    "models": models_rule,
    "sim": packages_rule,
}


def forbidden(folder: str, path: Path, source: str) -> list[str]:
    """The imports of a module that the rule of its folder forbids."""
    return [f"{path.relative_to(ROOT)}: {name}" for name in imports(path, source) if not RULES[folder](name)]


def code_for_tests(source: str) -> list[str]:
    """Names of tests, and of what tells code that it is under test."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                found.append(name)
            case ast.Constant(value=str(text)) if text.startswith("PYTEST_"):
                found.append(text)
    return found


def machine_paths(files: Iterable[tuple[str, bytes]]) -> list[str]:
    """``NAME:LINE`` of every path of one machine."""
    hits = ((name, data.count(b"\n", 0, hit.start())) for name, data in files for hit in MACHINE_PATH.finditer(data))
    return [f"{name}:{line + 1}" for name, line in hits]


def tracked() -> list[tuple[str, bytes]]:
    """Every file that git tracks or would add: (name, content)."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return [(name, (ROOT / name).read_bytes()) for name in names if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("folder", RULES)
def test_packages_import_what_they_may(folder):
    """No module imports what the rule of its folder forbids, not even late or by name."""
    paths = [path for path in MODULES if path.is_relative_to(ROOT / folder) and path != PLUGIN]
    assert paths
    assert not [line for path in paths for line in forbidden(folder, path, path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("folder", "name", "source"),
    [
        ("models", "models/a.py", "import torch"),
        ("models", "models/a.py", "def late():\n    from staleloc.sim.tapes.codec import Tape"),
        ("models", "models/a.py", "from staleloc import sim"),
        ("models", "models/a.py", "from ..sim import tape"),
        ("models", "models/a.py", "import importlib\nimportlib.import_module('staleloc.sim.tapes.codec')"),
        ("models", "models/a.py", "__import__('numpy')"),
        ("sim", "sim/a.py", "import pytest"),
        ("sim", "sim/a.py", "from tests.unit import test_tape"),
    ],
)
def test_a_forbidden_import_is_seen(folder, name, source):
    """Each way to import what is forbidden is noticed."""
    assert len(forbidden(folder, ROOT / name, source)) == 1


@pytest.mark.parametrize(
    ("folder", "name", "source"),
    [
        ("models", "models/a.py", "from . import config\nfrom .config import Config\nimport heapq"),
        ("sim", "sim/a.py", "import torch\nfrom .core import tape"),
    ],
)
def test_an_allowed_import_passes(folder, name, source):
    """The rules do not forbid what the design allows."""
    assert not forbidden(folder, ROOT / name, source)


def test_packages_hold_no_test_code():
    """Nothing installed is a test, or behaves differently under one."""
    found = {path.relative_to(ROOT): code_for_tests(path.read_text(encoding="utf-8")) for path in MODULES}
    assert not {path: names for path, names in found.items() if names}


def test_nothing_imports_the_plugin():
    """It imports pytest, which users need not have."""
    paths = [path for path in MODULES if path != PLUGIN]
    names = [name for path in paths for name in imports(path, path.read_text(encoding="utf-8"))]
    assert PLUGIN in MODULES
    assert not [name for name in names if "pytest_plugin" in name]


def test_planted_test_code_is_seen():
    """A test in a package is noticed, and so is code that asks whether it is under test."""
    assert code_for_tests("class A:\n    def test_it(self): ...") == ["test_it"]
    assert code_for_tests("import os\nif 'PYTEST_VERSION' in os.environ: ...") == ["PYTEST_VERSION"]


def test_modules_are_short():
    """A module that grows past the limit holds more than one idea, or says here why it does not."""
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert {name for name, count in lines.items() if count > MAX_LINES} == set(LONGER)
    assert all(len(why.split()) > 3 for why in LONGER.values())
    assert max(lines.values()) > MAX_LINES // 3, "the modules were not read"


def test_no_file_names_a_machine_path():
    """No file of the project works, or makes sense, on one machine only."""
    files = tracked()
    assert "pyproject.toml" in [name for name, _ in files]
    assert not machine_paths(files)


@pytest.mark.parametrize("folder", [b"work", b"root", b"tmp", b"home/jo"])
def test_a_planted_machine_path_is_seen(folder):
    """Each of the paths is noticed, bare or with more behind it; parts of relative paths and addresses are not."""
    assert machine_paths([("a", b"x\nopen('/%s/x')" % folder), ("b", b"cd /%s\n" % folder)]) == ["a:2", "b:1"]
    assert not machine_paths([("a", b"sim/%s ~/%s //host/%s /%s-x" % ((folder,) * 4))])


def test_every_package_is_installed():
    """setup.py finds folders with an ``__init__.py`` only; another one would be missing in what users install."""
    folders = {path.parent for top in ("models", "scenarios", "sim") for path in (ROOT / top).rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_a_command_that_plays_in_workers_loads_no_torch():
    """It takes longer to load than everything else, and a short campaign would wait for it twice."""
    program = (
        "from staleloc.sim.cli.main import main; import sys; code = main(); sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, "fuzz", "--tapes", "2"], capture_output=True, check=False)
    assert done.returncode == 0
