"""The sealed import, on a small package that stands for a release."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

POOL = """
import triton
import triton.language as tl
from requests import get
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.server_args import answer
try:
    import sgl_kernel
except ImportError:
    sgl_kernel = None

VALUE = 1

@triton.jit
def kernel(x: tl.constexpr): ...

class Pool(RadixAttention):
    def write(self, layer: RadixAttention) -> None: ...
"""

SCRIPT = """
import sys
from pathlib import Path
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.seal import seal
root = Path(sys.argv[1])
rewrite = lambda module, source: source.replace("VALUE = 1", "VALUE = 2") if module.endswith(".pool") else source
seal("this", root, {"sglang.srt.server_args": {"answer": lambda: 42}}, transform=rewrite)
def attempt(action):
    try:
        return action()
    except (TargetError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    srt = tmp_path / "sglang" / "srt"
    for name, text in {
        "mem_cache/pool.py": POOL,
        "server_args.py": "raise SystemExit('must not run')",
        "layers/radix_attention.py": "raise SystemExit('must not run')",
    }.items():
        (srt / name).parent.mkdir(parents=True, exist_ok=True)
        (srt / name).write_text(text)
    (tmp_path / "sglang" / "__init__.py").write_text("raise SystemExit('must not run')")
    return tmp_path


def run(root: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + code, str(root)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_only_what_the_list_names_is_executed(root: Path) -> None:
    assert run(root, "import sglang.srt.mem_cache.pool as pool\nprint(pool.answer(), repr(pool.RadixAttention))") == (
        "42 <stub sglang.srt.layers.radix_attention.RadixAttention>"
    )


def test_a_transform_rewrites_sources_in_memory(root: Path) -> None:
    assert run(root, "import sglang.srt.mem_cache.pool as pool\nprint(pool.VALUE)") == "2"
    assert "VALUE = 1" in (root / "sglang/srt/mem_cache/pool.py").read_text()
    assert not list(root.rglob("*.pyc"))


def test_packages_are_stubs_for_the_release_and_real_or_absent_for_everyone_else(root: Path) -> None:
    code = """
import sglang.srt.mem_cache.pool as pool
print(repr(pool.get), pool.sgl_kernel, "triton" in sys.modules, "requests" in sys.modules)
print(attempt(lambda: pool.kernel[1]))
"""
    assert run(root, code).splitlines() == [
        "<stub requests.get> None False False",
        "StubUsed: stub used: sglang.srt.mem_cache.pool.kernel [decorated by triton.jit] (subscripted); "
        "the sealed import leaves it out, so the adapter needs an update",
    ]


def test_a_module_the_release_does_not_have_is_missing_and_not_a_stub(root: Path) -> None:
    code = "import importlib\nprint(attempt(lambda: importlib.import_module('sglang.srt.gone')))"
    assert run(root, code) == "ModuleNotFoundError: No module named 'sglang.srt.gone'"


def test_one_release_a_process(root: Path) -> None:
    code = "print(attempt(lambda: seal('that', root, {})))"
    assert run(root, code) == "TargetError: that: this process already holds this; one release a process"
