"""What methods and functions of tensors and containers do to the mapping and to answers."""

from __future__ import annotations

__all__ = [
    "BUILT_IN", "CONSUMERS", "KEEPING", "LOOKUPS", "MAKERS", "PUTTING", "REPLACING", "SNAPSHOTS", "TENSOR_METHODS",
    "VIEWS",
]  # fmt: skip

VIEWS = frozenset(
    "as_strided chunk contiguous data_ptr detach expand expand_as flatten int int_repr long narrow permute ravel "
    "reshape select split squeeze storage t to to_dlpack transpose type unbind unflatten unsqueeze untyped_storage "
    "view view_as".split()
)
"""Of a tensor: the same memory, or it may be."""

SNAPSHOTS = frozenset("clone copy cpu numpy pin_memory tolist".split())
"""Of a tensor: its values, elsewhere."""

LOOKUPS = frozenset("embedding gather index_select masked_select take take_along_dim".split())
"""Of a tensor: some of its values, by index."""

KEEPING = VIEWS | SNAPSHOTS | LOOKUPS | frozenset(
    "abs add clamp clamp_max clamp_min cuda div flip fmod half index_fill masked_fill max min mul narrow_copy "
    "nan_to_num remainder repeat repeat_interleave roll short sort sub unique unique_consecutive where".split()
)  # fmt: skip
"""Of answers: answers."""

REPLACING = frozenset("resize_ resize_as_ set_ swap_".split())
"""Of a tensor: other memory under it."""

PUTTING = frozenset("add append appendleft extend insert put setdefault update".split())
"""Of a container: takes something in."""

MAKERS = frozenset(
    "arange bytearray deque defaultdict dict empty empty_like full full_like list new_empty new_full new_ones new_zeros "
    "ones ones_like set tuple zeros zeros_like OrderedDict".split()
)
"""Make something that holds no answer yet."""

CONSUMERS = frozenset(
    "all any bool callable hasattr hash id isinstance issubclass len print range repr str sum type".split()
)
"""Built in: take anything and keep nothing of it."""

BUILT_IN = frozenset("as_tensor dict enumerate filter frozenset iter list map max min next reversed set sorted tensor "
                     "tuple zip".split())  # fmt: skip
"""Give back what they were given, in another form."""

TENSOR_METHODS = VIEWS | SNAPSHOTS | LOOKUPS | KEEPING | PUTTING | frozenset(
    "close clear copy count decode encode fill format get index items join keys numel pop popleft put read remove "
    "replace reverse run send size split start step stop strip submit sum values wait write".split()
)  # fmt: skip
"""Names that tensors, containers and half the world have: on an unknown object they say nothing."""
