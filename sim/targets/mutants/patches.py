"""Mutants written as patches.

    NAME [EVENTS] releases=SPECIFIER policies=POLICY,POLICY
        The story, on one or more lines.
        @@ MODULE SCOPE
        - code that is removed
        + code that is put in its place

A line of code without a sign stays: the added lines come before it or after it. A mutant has one hunk for each `Edit`.
Events and options may be left out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace

from .transform import Edit, Mutant

__all__ = ["mutants"]

_HEAD = re.compile(r"(?P<name>\S+)(?: \[(?P<events>[^]]+)\])?(?P<options>(?: \w+=\S+)*)")


def mutants(base: Mutant, text: str, modules: Mapping[str, tuple[str, ...]] | None = None) -> tuple[Mutant, ...]:
    """The mutants that a text declares.

    Args:
        base: what they have in common. Its name is the prefix of theirs, its events are those that all need.
        text: their patches.
        modules: for SGLang, a module's name in the text -> its full name, and those it had in older releases.
    """
    return tuple(_mutant(base, block, modules) for block in re.split(r"\n(?=\S)", text.strip("\n")))


def _mutant(base: Mutant, block: str, modules: Mapping[str, tuple[str, ...]] | None) -> Mutant:
    first, _, body = block.partition("\n")
    head = _HEAD.fullmatch(first)
    assert head is not None, f"a mutant is declared as NAME [EVENTS] OPTION=VALUE, not {first!r}"
    options = dict(option.split("=", 1) for option in head["options"].split())
    story, *hunks = re.split(r"^@@ ", textwrap.dedent(body), flags=re.MULTILINE)
    return replace(
        base,
        name=base.name + head["name"],
        edits=tuple(_edit(hunk, modules) for hunk in hunks),
        policies=tuple(options["policies"].split(",")) if "policies" in options else base.policies,
        story=" ".join(story.split()),
        events=(*base.events, *(head["events"] or "").split()),
        releases=options.get("releases", base.releases),
    )


def _edit(hunk: str, modules: Mapping[str, tuple[str, ...]] | None) -> Edit:
    place, *lines = hunk.rstrip().split("\n")
    name, scope = place.split()
    module, *former = modules[name] if modules else (name,)
    removed, added, kept = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+ ")
    if kept:
        return Edit(module, scope, "before" if lines[0][0] == "+" else "after", kept, added, tuple(former))
    return Edit(module, scope, "replace" if added else "drop", removed, added, tuple(former))
