"""Reads calls: their results, their effects, and the code that receives the mapping."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from .facts import NEUTRAL, NOTHING, Place, Value, join
from .program import Function

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["TENSOR_METHODS", "read_call"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _words(
    "as_strided chunk contiguous data_ptr detach expand expand_as flatten int int_repr long narrow permute ravel "
    "reshape select split squeeze storage t to to_dlpack transpose type unbind unflatten unsqueeze untyped_storage "
    "view view_as"
)
"""Of a tensor: the same memory, or it may be."""

SNAPSHOTS = _words("clone copy cpu numpy pin_memory tolist")
"""Of a tensor: its values, elsewhere."""

LOOKUPS = _words("embedding gather index_select masked_select take take_along_dim")
"""Of a tensor: some of its values, by index."""

KEEPING = VIEWS | SNAPSHOTS | LOOKUPS | _words(
    "abs add clamp clamp_max clamp_min cuda div flip fmod half index_fill masked_fill max min mul narrow_copy "
    "nan_to_num remainder repeat repeat_interleave roll short sort sub unique unique_consecutive where"
)  # fmt: skip
"""Of answers: answers."""

REPLACING = _words("resize_ resize_as_ set_ swap_")
"""Of a tensor: other memory under it."""

PUTTING = _words("add append appendleft extend insert put setdefault update")
"""Of a container: takes something in."""

MAKERS = _words(
    "arange bytearray deque defaultdict dict empty empty_like full full_like list new_empty new_full new_ones "
    "new_zeros "
    "ones ones_like set tuple zeros zeros_like OrderedDict"
)
"""Make something that holds no answer yet."""

CONSUMERS = _words("all any bool callable hasattr hash id isinstance issubclass len print range repr str sum type")
"""Built in: take anything and keep nothing of it."""

BUILT_IN = _words(
    "abs as_tensor dict enumerate filter frozenset int iter list map max min next reversed set sorted tensor "
                     "tuple zip"
)  # fmt: skip
"""Give back what they were given, in another form."""

TENSOR_METHODS = VIEWS | SNAPSHOTS | LOOKUPS | KEEPING | PUTTING | _words(
    "close clear copy count decode encode fill format get index items join keys numel pop popleft put read remove "
    "replace reverse run send size split start step stop strip submit sum values wait write"
)  # fmt: skip
"""Names that tensors, containers and half the world have: on an unknown object they say nothing."""


def read_call(reader: Expressions, node: ast.Call) -> Value:
    """What a call may give back; what it does is noted."""
    receiver = _receiver(reader, node.func)
    given = [(str(index), reader.read(it)) for index, it in enumerate(node.args)]
    named = [(it.arg or "", reader.read(it.value)) for it in node.keywords]
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if receiver.table and method:
        return _of_table(reader, node, method, receiver)
    if _puts(reader, node, method, receiver, given, named):
        return NOTHING
    if receiver.answer and method in KEEPING:
        return Value(answer=True, place=receiver.place if method in VIEWS else None)
    if receiver.param and method in VIEWS:
        return receiver
    known = _known(reader, node, method, given, named)
    if known is not None:
        return known
    return _of_program(reader, node, receiver, given, named)


def _receiver(reader: Expressions, func: ast.expr) -> Value:
    if isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Name) and func.value.id in reader.modules:
            return NOTHING
        return reader.read(func.value)
    if isinstance(func, ast.Subscript):
        reader.read(func.slice)
    elif not isinstance(func, ast.Name):
        reader.read(func)
    return NOTHING


def _of_table(reader: Expressions, node: ast.Call, method: str, table: Value) -> Value:
    """A method of the mapping."""
    if method in REPLACING:
        reader.site("replace", node)
    elif method.endswith("_") and not method.startswith("_"):
        reader.site("fill" if method in ("fill_", "zero_") else "write", node)
    elif method in VIEWS:
        return replace(table, place=None)
    elif method in SNAPSHOTS or method in LOOKUPS or method == "__getitem__":
        return Value(answer=True)
    elif method == "__setitem__":
        reader.site("write", node)
    else:
        return NOTHING
    return table


def _puts(
    reader: Expressions,
    node: ast.Call,
    method: str,
    receiver: Value,
    given: list[tuple[str, Value]],
    named: list[tuple[str, Value]],
) -> bool:
    """A tensor or a container takes something in, or is emptied."""
    if receiver.place is None and not receiver.param:
        return False
    values = [value for _, value in (*given, *named)]
    if method in ("clear", "zero_", "fill_", "cache_clear"):
        reader.keep(receiver, NEUTRAL, node, fill=True)
    elif method in PUTTING or (method.endswith("_") and not method.endswith("__")):
        if any(it.table for it in values) and method in PUTTING:
            reader.site("hand-out", node, "put in a container")
        elif any((it.answer and not (method in PUTTING and it.param)) or it.table for it in values):
            reader.keep(receiver, Value(answer=True), node, fill=True)
        else:
            return False
    else:
        return False
    return True


def _known(
    reader: Expressions, node: ast.Call, method: str, given: list[tuple[str, Value]], named: list[tuple[str, Value]]
) -> Value | None:
    """Functions of Python, of torch and of Triton; None if it is none of them."""
    values = [value for _, value in given]
    first = values[0] if values else NOTHING
    if isinstance(node.func, ast.Name) and node.func.id not in reader.env:
        name = node.func.id
        if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            return reader.read(_attribute_of(node, str(node.args[1].value)))
        if name == "setattr" and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
            return None if not str(node.args[1].value).isidentifier() else _set_attribute(reader, node, values[2])
        if name in CONSUMERS:
            return NOTHING
        if name in BUILT_IN:
            return _passed_on(name, values)
        if name in MAKERS:
            return NEUTRAL
        return None
    if not (isinstance(node.func, ast.Attribute) and _is_module(reader, node.func.value)):
        return NEUTRAL if method in MAKERS and method.startswith("new_") else None
    for name, value in named:
        if name == "out":
            _written(reader, node, value, values)
    if method.endswith("_") and not method.endswith("__"):
        _written(reader, node, first, values[1:])
        return first
    if method == "store" and reader.function.is_kernel:
        _written(reader, node, first, values[1:])
        return NOTHING
    if method == "load" and reader.function.is_kernel:
        return Value(answer=first.table)
    if reader.program.functions(method, reader.function.module) and _root(node.func) != "torch":
        return None
    if method in MAKERS:
        return NEUTRAL
    if method in ("cat", "stack", "concat", "hstack", "vstack"):
        listed = node.args[0] if node.args else None
        parts = [reader.read(it) for it in listed.elts] if isinstance(listed, ast.List | ast.Tuple) else [first]
        return Value(answer=all(it.answer or it.table for it in parts))
    return _of_tensors(reader, node, method, [*values, *(value for _, value in named)])


def _of_tensors(reader: Expressions, node: ast.Call, method: str, values: list[Value]) -> Value:
    if _root(node.func) not in ("torch", "np", "numpy", "F", "tl", "math", "copy"):
        if any(it.table for it in values):
            reader.site("hand-out", node, "to code that is not here")
        return NOTHING
    if method in ("from_numpy", "from_dlpack") and any(it.table for it in values):
        return Value(table=True)
    if method in KEEPING | BUILT_IN | {"deepcopy"}:
        return Value(answer=any(it.table or it.answer for it in values))
    return NOTHING


def _passed_on(name: str, values: list[Value]) -> Value:
    if name == "zip":
        return Value(items=(), answer=False) if not values else Value(items=(Value(items=tuple(map(_bare, values))),))
    if name == "enumerate":
        return Value(items=(Value(items=(NOTHING, _bare(values[0]) if values else NOTHING)),))
    if name in ("reversed", "iter", "next") and values:
        return values[0]
    if not values:
        return NEUTRAL
    parts = [join(it, *it.items) for it in values]
    return Value(answer=any(it.answer for it in parts), classes=parts[0].classes)


def _bare(value: Value) -> Value:
    return Value(answer=value.answer, table=value.table, classes=value.classes)


def _written(reader: Expressions, node: ast.Call, target: Value, values: list[Value]) -> None:
    """A function writes into its argument."""
    if target.table:
        reader.site("write", node)
    elif any(it.answer or it.table for it in values):
        reader.keep(target, Value(answer=True), node, fill=True)


def _attribute_of(node: ast.Call, name: str) -> ast.expr:
    made = ast.Attribute(node.args[0], name, ast.Load())
    return ast.copy_location(made, node) if name.isidentifier() else ast.Constant(None)


def _set_attribute(reader: Expressions, node: ast.Call, value: Value) -> Value:
    reader.assign(_attribute_of(node, str(getattr(node.args[1], "value", ""))), value, node)
    return NOTHING


def _is_module(reader: Expressions, node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in reader.modules


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _of_program(
    reader: Expressions,
    node: ast.Call,
    receiver: Value,
    given: list[tuple[str, Value]],
    named: list[tuple[str, Value]],
) -> Value:
    """A call of the program's own functions, or of such as are not here."""
    callees = reader.resolver.callees(node.func, receiver)
    if not receiver.classes and isinstance(node.func, ast.Attribute):
        callees = [it for it in callees if _fits(it, given, named)]
    is_given = any(value.table for _, value in (*given, *named))
    if is_given:
        # One that calls its parameter by the name of the mapping is meant, and no other of the same name.
        callees = [it for it in callees if reader.facts.mapping in it.params] or callees
        if not callees:
            reader.facts.missing.add(_name_of(node.func))
    spot = reader.spot(node)
    bound = {callee: _bound(callee, given, named) for callee in callees}
    for callee in callees:
        reader.log.calls.append((reader.function, callee, spot))
        for name, value in bound[callee].items():
            reader.facts.give(callee, name, value)
            if (callee, name) in reader.facts.fills:
                reader.keep(value, Value(answer=True), node, fill=True)
    if is_given:
        names = sorted({it.name for it in callees})
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        reader.site("hand-out", node, f"to {', '.join(names[:2])}{more}" if names else "to code that is not here")
    made = _made(reader, node, given, named)
    if made is not None:
        return made
    is_kernel = isinstance(node.func, ast.Subscript)
    of_self = isinstance(node.func, ast.Name) or bool(receiver.classes) or is_kernel
    return reader.resolver.given_back(callees, bound, of_self)


def _fits(callee: Function, given: list[tuple[str, Value]], named: list[tuple[str, Value]]) -> bool:
    """Whether a method that shares no more than a name with the one called can be called like that."""
    return len(given) <= len(callee.params) and all(name in callee.params for name, _ in named)


def _name_of(func: ast.expr) -> str:
    func = func.value if isinstance(func, ast.Subscript) else func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _bound(callee: Function, given: list[tuple[str, Value]], named: list[tuple[str, Value]]) -> dict[str, Value]:
    """Arguments by the callee's names for them."""
    bound = {callee.params[int(index)]: value for index, value in given if int(index) < len(callee.params)}
    return bound | {name: value for name, value in named if name in callee.params}


def _made(
    reader: Expressions, node: ast.Call, given: list[tuple[str, Value]], named: list[tuple[str, Value]]
) -> Value | None:
    """An object, if the call makes one; its fields keep what they are given."""
    name = _name_of(node.func)
    if not reader.program.is_class(name):
        return None
    fields = reader.program.fields(name)
    if fields is not None:
        by_name = [(fields[int(index)], value) for index, value in given if int(index) < len(fields)]
        for fld, value in (*by_name, *((it, value) for it, value in named if it in fields)):
            if value.table:
                reader.site("alias", node, f"kept as {name}.{fld}")
                reader.facts.keep(Place(name, fld), value)
            elif value != NOTHING:
                reader.keep(Value(place=Place(name, fld)), replace(value, neutral=False), node)
    return Value(classes=frozenset({name}))
