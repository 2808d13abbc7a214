"""Crashes: where an exception came out, and whose it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from staleloc.sim.core import panics
from staleloc.sim.parts.allocator.events import Clear
from staleloc.sim.parts.calls import MAX_CALLS, shown
from staleloc.sim.parts.check import crash
from staleloc.sim.targets.base import TargetError


def function(module: str, body: str, **names: object) -> Callable[[], None]:
    """A function ``f`` of a module of that name."""
    home = ModuleType(module)
    vars(home).update(names)
    exec(f"def f():\n    {body}", vars(home))
    return vars(home)["f"]


def raised(outer: str, inner: str, error: Exception) -> BaseException:
    """What comes out of a function of module `outer` that calls one of module `inner`."""
    called = function(inner, "raise error", error=error)
    with pytest.raises(type(error)) as found:
        function(outer, "called()", called=called)()
    frames = found.value.__traceback__
    assert frames is not None
    return found.value.with_traceback(frames.tb_next)  # without our own frame


@pytest.mark.parametrize(
    ("adapter", "place"), [((), "adapter.calls, line 2, in f"), (("adapter.",), "engine.pool, line 2, in f")]
)
def test_the_engines_place_is_told_and_not_the_adapters(adapter: tuple[str, ...], place: str) -> None:
    """The innermost frame counts, but for those of modules that the target calls its adapter's."""
    found = crash(raised("engine.pool", "adapter.calls", KeyError("x")), 3, Clear(), adapter)
    assert found.what == "clear raised KeyError: 'x'"
    assert found.sentence.endswith(place)


def test_an_adapter_alone_is_told_all_the_same() -> None:
    """Where no frame is the engine's, the adapter's has to do."""
    found = crash(raised("adapter.a", "adapter.b", KeyError("x")), 0, Clear(), ("adapter.",))
    assert found.sentence.endswith("adapter.b, line 2, in f")


def test_a_target_that_cannot_be_driven_has_not_crashed() -> None:
    """What the harness cannot do is no divergence."""
    with pytest.raises(TargetError):
        crash(raised("engine.a", "adapter.b", TargetError("x")), 0, Clear(), ())


def test_the_call_chain_has_the_engines_own_frames_only() -> None:
    """From the driver's call to the exception, by module and line; the adapter's and libraries' are left out."""
    error = raised("engine.pool", "adapter.calls", KeyError("x"))
    assert crash(error, 3, Clear(), ("adapter.",)).calls == ("engine/pool.py:2 f",)
    assert crash(error, 3, Clear(), ()).calls == ("engine/pool.py:2 f", "adapter/calls.py:2 f")
    library = raised("engine.pool", "torch.ops", KeyError("x"))
    assert crash(library, 3, Clear(), ()).calls == ("engine/pool.py:2 f",)


def test_a_long_call_chain_is_shown_by_its_ends() -> None:
    calls = [f"engine.py:{line} f" for line in range(20)]
    short = shown(calls)
    assert len(short) == MAX_CALLS
    assert short[:3] == (calls[0], "... 13 more", calls[14])
    assert shown(calls[:MAX_CALLS]) == tuple(calls[:MAX_CALLS])


@pytest.fixture
def standard_error(tmp_path: Path) -> Iterator[None]:
    """Standard error is a file, as a worker's is."""
    kept = os.dup(2)
    with (tmp_path / "log").open("w+b") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@pytest.mark.parametrize(
    "printed",
    [
        "\nthread '<unnamed>' (7) panicked at core/src/tree.rs:12:5:\nno node 4\nnote: run with RUST_BACKTRACE=1\n",
        "thread '<unnamed>' panicked at 'no node 4', core/src/tree.rs:12:5\n",
    ],
)
@pytest.mark.usefixtures("standard_error")
def test_the_first_panic_of_a_tape_is_told(printed: str) -> None:
    """Not the one of an earlier tape, and not the poisoned lock that a later call finds."""
    os.write(2, b"thread 'x' panicked at core/src/old.rs:1:1:\nof an earlier tape\n")
    panics.begin()
    os.write(2, printed.encode())
    os.write(2, b"thread 'x' panicked at core/src/lock.rs:3:9:\na PoisonError\n")
    found = crash(raised("engine.pool", "engine.core", RuntimeError("a PoisonError")), 3, Clear(), ())
    assert found.what == "clear raised RuntimeError: no node 4"
    assert found.calls[-1] == "core/src/tree.rs:12 panic"
