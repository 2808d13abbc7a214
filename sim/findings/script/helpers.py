"""Functions that a reproduction script may hold. Their text goes into the script as it stands, those that are used.

They import nothing of ours at the top, and stay as plain as the reader of a bug report wants them.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["used_helpers"]


def report(what: str, expected: object, actual: object) -> int:
    """Say what was expected and what came; 1 if they differ."""
    print(f"{what}: expected {expected}, actual {actual}")
    print("the bug shows" if actual != expected else "the bug does not show")
    return int(actual != expected)


def ints(tensor: Any) -> Any:
    """The elements of a tensor; None stays None."""
    return None if tensor is None else tensor.tolist()


def landed(held: list[Any], tags: list[int]) -> list[int]:
    """The slots that rows with these tags went to; what is in no other slot went to the dummy slot 0."""
    return [held.index(tag, 1) if tag in held[1:] else 0 for tag in tags]


def put(memory: dict[int, int], slots: list[int], tags: list[Any]) -> None:
    """Write down what slots must hold from now on; a row without a slot is lost, None is no row."""
    memory.update((slot, tag) for slot, tag in zip(slots, tags, strict=True) if slot and tag is not None)


def kept(memory: dict[int, int], slots: list[int]) -> list[int | None]:
    """What slots must hold; None for a token without a slot."""
    return [memory.get(slot, 0) if slot else None for slot in slots]


def repacked(
    memory: dict[int, int], before: dict[int, list[int]], after: dict[int, list[int]], held: list[Any]
) -> None:
    """Write down that rows went along from requests' slots `before` to those `after`; what lies in slots that no
    token has is the engine's business."""
    moved = [
        (new, memory.get(old, 0)) for name in before for old, new in zip(before[name], after[name], strict=True) if old
    ]
    memory.update(enumerate(held))
    memory.update(moved)


def differing(memory: list[dict[int, int]], held: list[list[Any]]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Slots that hold something else than they must, as (layer, slot): what they must hold, and what they do."""
    wrong = [
        (layer, slot)
        for layer, tags in enumerate(held)
        for slot, tag in enumerate(tags)
        if slot and tag != memory[layer].get(slot, 0)
    ]
    must = {(layer, slot): memory[layer].get(slot, 0) for layer, slot in wrong}
    return must, {(layer, slot): held[layer][slot] for layer, slot in wrong}


def wrong_pages(free: list[int], owned: set[int], pages: int) -> list[int]:
    """Pages in a free list that are owned, listed twice, or not in the pool."""
    return sorted({page for page in free if page in owned or free.count(page) > 1 or not 1 <= page <= pages})


def lost_pages(free: list[int], owned: set[int], waiting: set[int], pages: int) -> list[int]:
    """Pages that nobody owns, that wait for no free group, and that are in no free list."""
    return sorted(set(range(1, pages + 1)) - owned - waiting - set(free))


def wrong_grants(
    before: dict[int, list[int]], grants: list[tuple[int, int, list[int]]], size: int, pages: int
) -> list[int]:
    """Slots handed out that were not free, not in the pool, or not at their token's place in its page.

    A grant is a request, the position of its first token, and a slot for each token, 0 for none.
    """
    taken = {slot // size for request, slots in before.items() for slot in slots if slot}
    wrong = []
    for request, start, slots in grants:
        known = dict(enumerate(before.get(request, [])))
        for position, slot in enumerate(slots, start):
            page, offset = divmod(slot, size)
            if slot == 0:
                continue
            if offset != position % size or not 1 <= page <= pages:
                wrong.append(slot)
            elif offset == 0:
                if page in taken:
                    wrong.append(slot)
                taken.add(page)
            elif known.get(position - 1, slot - 1) != slot - 1:
                wrong.append(slot)
            known[position] = slot
    return wrong


def give_up(why: str) -> NoReturn:
    """End with exit code 2: nothing was found out."""
    print(why, file=sys.stderr)
    sys.exit(2)


def unfit(error: Exception) -> NoReturn:
    """End with exit code 2 and one line that says what failed, and at which line of `main`."""
    import linecache
    import traceback

    causes = [error, error.__cause__]
    missing = next((cause for cause in causes if isinstance(cause, ModuleNotFoundError)), None)
    name = "" if type(error).__name__ == "TargetError" else f"{type(error).__name__}: "
    why = str(missing) if missing else f"{name}{error}".removesuffix("; the adapter needs an update")
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "main"]
    place = linecache.getline(__file__, lines[-1]).strip() if lines else "its start"
    give_up(f"not played to the end: {' '.join(why.split())} (at: {place}); this script was made for {MADE_FOR}")


MADE_FOR = ""
"""In a script: the target on which the divergence showed."""


def used_helpers(text: str, *more: ModuleType) -> list[str]:
    """The sources of the functions above, and of those in more modules, that `text` names, and of those that they
    name. They call only what stands before them."""
    wanted: list[str] = []
    for module in (*reversed(more), sys.modules[__name__]):
        source = inspect.getsource(module)
        for node in reversed(ast.parse(source).body):
            if isinstance(node, ast.FunctionDef) and re.search(rf"\b{node.name}\(", text):
                segment = ast.get_source_segment(source, node)
                assert segment is not None
                segment = segment.replace("from .", f"from {module.__package__}.")
                wanted.insert(0, segment)
                text += segment
    return wanted
