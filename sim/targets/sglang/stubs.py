"""Placeholders for modules outside the sealed import: they survive an import and fail, with their name, when used.

A permissive placeholder is dangerous: it is never None and it is falsy, so a test such as
``x is not None`` silently goes the wrong way. A stub therefore has two lives. While a module of the
release is being executed it may be subscripted, called as a decorator, inherited from and passed
around. After that every use raises StubUsed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from ..base import TargetError

__all__ = ["Stub", "StubModule", "StubUsed", "importing"]


class StubUsed(TargetError):
    """The release used something the sealed import left out: a gap of the harness, not a defect of the release.

    Attributes:
        stub: dotted name of the used placeholder.
    """

    def __init__(self, stub: str, use: str) -> None:
        super().__init__(f"stub used: {stub} ({use}); the sealed import leaves it out, so the adapter needs an update")
        self.stub = stub

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.stub, str(self))


def _rebuild(stub: str, message: str) -> StubUsed:
    error = StubUsed(stub, "")
    error.args = (message,)
    return error


_depth = 0


@contextmanager
def importing() -> Iterator[None]:
    """While inside, stubs may be used the way a module body uses names: decorators, bases, annotations."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def _use(stub: Stub, use: str, name: str) -> Stub:
    if _depth:
        return Stub(name)
    raise StubUsed(_name(stub), use)


def _name(stub: Stub) -> str:
    name: str = object.__getattribute__(stub, "_stub_name")
    return name


class StubBase:
    """The base class of a class of the release whose own base class is a stub."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise StubUsed(type(self).__name__, "instance of a class whose base is a stub")

    def __init_subclass__(cls, **_kwargs: object) -> None:
        super().__init_subclass__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise StubUsed(f"{type(self).__name__}.{name}", "attribute of a class whose base is a stub")


class Stub:
    """Stands for one name the sealed import leaves out; see the module's docstring."""

    __slots__ = ("_stub_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_stub_name", name)

    def __repr__(self) -> str:
        return f"<stub {_name(self)}>"

    def __str__(self) -> str:
        return repr(self) if _depth else self._never("formatted")

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _use(self, f"attribute {name}", f"{_name(self)}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        _use(self, f"attribute {name} set", "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _depth and len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return Stub(f"{args[0].__module__}.{args[0].__qualname__} [decorated by {_name(self)}]")
        return _use(self, "called", f"{_name(self)}()")

    def __getitem__(self, _item: object) -> Stub:
        return _use(self, "subscripted", _name(self))

    def __or__(self, _other: object) -> Stub:
        return _use(self, "combined", _name(self))

    __ror__ = __and__ = __rand__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __or__
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = __or__

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return (type(_name(self).rpartition(".")[2], (StubBase,), {}),)  # a class of its own: no two bases are the same

    def __instancecheck__(self, _instance: object) -> bool:
        return self._false("isinstance")

    def __subclasscheck__(self, _subclass: type) -> bool:
        return self._false("issubclass")

    def __eq__(self, other: object) -> bool:
        return self is other if _depth else self._never("compared")

    def __hash__(self) -> int:
        return id(self)

    def _false(self, use: str) -> bool:
        if _depth:
            return False
        raise StubUsed(_name(self), use)

    def _never(self, use: str = "used as a value") -> NoReturn:
        raise StubUsed(_name(self), use)

    def __bool__(self) -> bool:
        self._never("tested for truth")

    def __iter__(self) -> Iterator[Any]:
        self._never("iterated")

    def __len__(self) -> int:
        self._never("measured")

    def __contains__(self, _item: object) -> bool:
        self._never("searched")

    def __enter__(self) -> Any:
        self._never("entered")

    def __exit__(self, *_exc: object) -> None:
        self._never("left")

    def __index__(self) -> int:
        self._never()

    def __int__(self) -> int:
        self._never()

    def __float__(self) -> float:
        self._never()

    def __lt__(self, _other: object) -> bool:
        self._never("compared")

    __le__ = __gt__ = __ge__ = __lt__


class StubModule(ModuleType):
    """A module of which every name is a stub, except those set on it."""

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        stub = Stub(f"{self.__name__}.{name}")
        setattr(self, name, stub)
        return stub
