"""What methods and functions of tensors and containers do to the mapping and to answers."""

from __future__ import annotations

__all__ = [
    "BUILT_IN", "CONSUMERS", "KEEPING", "LOOKUPS", "MAKERS", "PUTTING", "REPLACING", "SNAPSHOTS", "TENSOR_METHODS",
    "VIEWS",
]  # fmt: skip


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
