"""Crashes: where an exception came out, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from staleloc.sim.parts.allocator.events import Clear
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
