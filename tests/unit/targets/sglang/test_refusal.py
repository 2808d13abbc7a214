"""A release that cannot be imported: the message says where, and what to do."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.drift import explain
from staleloc.sim.targets.sglang.engine_parts import EngineParts


def fails(source: str, module: str = "sglang.srt.mem_cache.swa_memory_pool") -> Exception:
    """What executing a module with this source raises."""
    try:
        exec(compile(source, "/checkout/swa_memory_pool.py", "exec"), {"__name__": module})
    except Exception as error:
        return error
    raise AssertionError("it was executed")


def test_a_syntax_error_is_told_with_file_and_line() -> None:
    """The user is in the middle of an edit."""
    assert explain("sglang@.", fails("x = 1\ndef f(:\n")) == (
        "sglang@. has a syntax error: /checkout/swa_memory_pool.py, line 2: invalid syntax"
    )


def test_an_error_of_the_release_is_told_with_its_place() -> None:
    """The innermost frame of the release is named, not one of ours."""
    assert explain("sglang@.", fails("def f():\n    raise ValueError('no  \\n good')\nf()\n")) == (
        "sglang@. cannot be imported: ValueError: no good at /checkout/swa_memory_pool.py, line 2; "
        "fix that place, or update the adapter"
    )
    assert " at " not in explain("sglang@.", fails("1 / 0", "elsewhere"))


def test_a_missing_package_of_the_extra_says_what_to_install() -> None:
    """One that the release gets for real."""
    message = explain("sglang==0.5.23", ModuleNotFoundError("No module named 'msgspec'", name="msgspec"))
    assert message == "sglang==0.5.23 needs the package msgspec; install the extra: pip install 'staleloc[sglang]'"


@pytest.mark.parametrize(
    ("source", "module", "blamed"),
    [
        ("assert False", "sglang.srt.mem_cache.unified_radix_cache", False),
        ("raise RuntimeError", "sglang.srt.mem_cache.unified_radix_cache", False),
        ("raise TypeError", "sglang.srt.mem_cache.unified_radix_cache", True),
        ("assert False", "staleloc.sim.targets.sglang.engine", True),
    ],
)
def test_a_release_that_fails_by_itself_is_left_to_the_tapes(source: str, module: str, blamed: bool) -> None:
    """Only what a misfit raises, or what our own side raises, says that the adapter needs an update."""
    parts = EngineParts("sglang@.", False, False, False, trusted=False)

    class Failing:
        def build(self, config: Config) -> None:
            exec(compile(source, "/checkout/tree.py", "exec"), {"__name__": module})

    target: Any = Failing()
    with pytest.raises(TargetError, match="the adapter needs an update") if blamed else nullcontext():
        parts.trial(target, Config(level="engine"))
