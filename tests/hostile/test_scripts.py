"""A script holds names that others chose: none becomes code. And no failure of a script passes for the bug."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import warm
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from plain_run import LONG

from staleloc.models.config import SWA, Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts import events_file
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.targets.mutants.transform import builtin_root

EXAMPLES = settings(
    max_examples=400 if LONG else 10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

CONFIG = Config(policy="memo", full_size=2, swa_size=2, layers=(SWA,), window=2)

TAPE = Tape(CONFIG, (ev.Alloc(0, 1), ev.BeginForward(((0, 0, 1),)), ev.WriteKv(0)))

STALE = Divergence("stale-translation", "translation", 2, "full loc 1 was written to SWA slot 2", "it is stale")

CRASH = Divergence("crash", "crash", 2, "write_kv raised ValueError: bad", "")

EVIL = '"""\nimport os\nos.system("id")\n"""'

NASTY = [
    EVIL, EVIL.replace('"', "'"), "\\", '\\"""', "\\\\'''", "'''", '"', "a\nb", "a\rb", "a\r\nb",
    "\x0c", "\x85", "\u2028",
    "\u202eevil\u202c", "\u2066x\u2069", "\x1b[2J", "\udcff", "\ufeff", "\\N{DIGIT ONE}", "\\x41", "{name}", "%s", "#",
    "\n    import os", '")\nos.system("id")\n#', "\\\n", "a\tb", "x" * 300, "-" * 150, "\u0301", "名前",
]  # fmt: skip

text = st.text(max_size=60) | st.sampled_from(NASTY) | st.lists(st.sampled_from(NASTY), max_size=3).map("".join)

names = text.map(lambda it: it.replace("/", "_").replace("\0", "_")[:60]).filter(lambda it: it not in ("", ".", ".."))


def calls(source: str) -> set[str]:
    """What the code of a script calls and imports, and the definitions that it has."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
        elif isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
            found.add(ast.unparse(node).partition(":\n")[0])
    return found


@pytest.fixture
def no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the embedded modules out, of which a script mostly consists."""
    monkeypatch.setattr("staleloc.sim.findings.script.script.sources_of", lambda *arguments: ())


@pytest.fixture(scope="module")
def plain() -> set[str]:
    """The calls of scripts of these findings with plain names."""
    found: set[str] = set()
    for divergence in (STALE, CRASH, replace(CRASH, event=-1)):
        found |= calls(script(Finding(Origin("builtin", seed=0, index=1), TAPE, divergence)))
    return found


def is_harmless(finding: Finding, plain: set[str]) -> bool:
    """Whether a script is plain text that parses, calls nothing else, and hides nothing from its reader."""
    source = script(finding)
    source.encode("utf-8")
    return calls(source) <= plain and all(c.isprintable() or c == "\n" for c in source)


@pytest.mark.usefixtures("no_sources")
@EXAMPLES
@given(name=names, tape=text, mark=text)
@example(name="a", tape="\0", mark="\0")
def test_no_name_becomes_code(name: str, tape: str, mark: str, plain: set[str], tmp_path: Path) -> None:
    """Of a folder with a target, of a tape, and in what an engine's error says."""
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte is in no file's name
        name = encoded = "name"  # type: ignore[assignment]
    folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(encoded)[:200])))
    if not os.path.lexists(folder):
        folder.symlink_to(builtin_root())
    crash = replace(CRASH, what=f"write_kv raised {mark}: {mark}", sentence=mark if "{" not in mark else "")
    for divergence in (STALE, crash, replace(crash, event=-1)):
        for origin in (Origin(f"builtin@{folder}", seed=0, index=1), Origin("builtin", tape=tape)):
            assert is_harmless(Finding(origin, TAPE, divergence), plain)


@pytest.mark.usefixtures("no_sources")
@pytest.mark.parametrize("name", NASTY[:-4])
def test_no_name_of_a_file_with_events_becomes_code(
    name: str, plain: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor its docstrings, which become comments."""
    monkeypatch.chdir(tmp_path)
    path = Path(name.replace("/", "_").encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") + ".py")
    said = ascii(name.encode("utf-8", "replace").decode())  # a docstring holds no lone surrogate
    path.write_text(
        "from staleloc.sim.declared import Declared\n"
        f"class Poke(Declared):\n    __doc__ = {said}\n    kind = 'poke'\n"
        "    def call(self, cache): pass\n    def apply(self, model): pass\n"
    )
    events_file.load(str(path))
    try:
        loaded = events_file.loaded()
        assert loaded is not None
        tape = replace(TAPE, events=(*TAPE.events, loaded.events["poke"]()))
        finding = Finding(Origin("builtin", seed=0, index=1), tape, replace(CRASH, event=3))
        own = {"cache.play", "own.Poke", "from embedded import own"}
        assert is_harmless(finding, plain | own)
    finally:
        events_file.load(None)


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        (r"import faulthandler\n", "import no_such_module\n", "ModuleNotFoundError"),
        (r"import faulthandler\n", "raise SystemExit(1)\n", "SystemExit"),
        (r"def run\(", "def run(:\n", "SyntaxError"),
        (r"class ByHand", "1 / 0\nclass ByHand", "ZeroDivisionError"),
        (r"class BuiltinTarget", "import sys; sys.exit(1)\nclass BuiltinTarget", ""),
    ],
)
def test_a_script_that_cannot_be_loaded_does_not_end_with_1(part: str, instead: str, said: str, tmp_path: Path) -> None:
    """1 says that the bug shows: a module that is missing, does not parse or ends the process says 2, in one line."""
    source = script(Finding(Origin("builtin", seed=0, index=1), TAPE, STALE))
    changed = re.sub(part, instead, source, count=1)
    assert changed != source
    path = tmp_path / "repro.py"
    path.write_text(changed)
    done = warm.run([str(path)], tmp_path, without="staleloc")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert said in done.stderr
