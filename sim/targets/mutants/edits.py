"""The vocabulary of mutants: one function for each edit, and one for each family of mutants."""

from __future__ import annotations

from .transform import Edit, Mutant

__all__ = [
    "after", "any_policy", "before", "disagg", "drop", "engine", "first_layer", "graphs", "memo", "sglang_node",
    "side_channel", "speculative", "swap",
]  # fmt: skip


def drop(module: str, scope: str, old: str) -> Edit:
    return Edit(module, scope, "drop", old)


def swap(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "replace", old, new)


def before(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "before", old, new)


def after(module: str, scope: str, old: str, new: str) -> Edit:
    return Edit(module, scope, "after", old, new)


def memo(name: str, story: str, *edits: Edit) -> Mutant:
    return Mutant(f"memo-{name}", "builtin", edits, "hybrid", ("memo",), story, ("translate",))


def side_channel(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"side-channel-{name}", "builtin", edits, "hybrid", ("side_channel",), story, events)


def first_layer(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(f"first-layer-{name}", "builtin", edits, "dsv4", ("first_layer",), story, events)


def any_policy(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return Mutant(name, "builtin", edits, "hybrid", ("uncached", "side_channel", "memo"), story, events)


def engine(
    name: str,
    story: str,
    *edits: Edit,
    events: tuple[str, ...] = (),
    policies: tuple[str, ...] = ("uncached", "memo"),
) -> Mutant:
    return Mutant(name, "builtin", edits, "hybrid", policies, story, events, level="engine")


def graphs(name: str, story: str, *edits: Edit, events: tuple[str, ...], policies: tuple[str, ...]) -> Mutant:
    return Mutant(
        f"graph-{name}", "builtin", edits, "hybrid", policies, story, events, level="engine", features=("graphs",)
    )


def disagg(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    policies = ("uncached", "memo")
    name = f"disagg-{name}"
    return Mutant(name, "builtin", edits, "hybrid", policies, story, events, level="engine", features=("disagg",))


def speculative(
    name: str,
    story: str,
    *edits: Edit,
    events: tuple[str, ...] = (),
    policies: tuple[str, ...] = ("uncached", "memo"),
) -> Mutant:
    name = f"spec-{name}"
    return Mutant(name, "builtin", edits, "hybrid", policies, story, events, level="engine", features=("spec",))


def sglang_node(name: str, releases: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    """Shown with the Python tree core, whose locks can be seen: budgets beside a Rust tree are not judged."""
    policies, events = ("native", "python-core"), ("preallocate", *events)
    return Mutant(
        f"sglang-node-{name}", "sglang", edits, "hybrid", policies, story, events, releases, "engine", ("disagg",)
    )
