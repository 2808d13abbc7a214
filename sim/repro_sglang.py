"""A release of SGLang in a script: the calls that our adapter makes, written out."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim import events as ev
from staleloc.sim.repro_dialect import Lines

__all__ = ["ROOTS", "SglangDialect", "Traits", "traits"]

ROOTS = (
    "staleloc.sim.targets.sglang.environment",
    "staleloc.sim.targets.sglang.fakes",
    "staleloc.sim.targets.sglang.leaves",
    "staleloc.sim.targets.sglang.seal",
)

_BUFFER = 4096
"""Elements of the buffer that batches re-use; see `staleloc.sim.targets.arena`."""


@dataclass(frozen=True)
class Traits:
    """What differs between releases in the calls.

    Attributes:
        write: parameters of ``SWAKVPool.set_kv_buffer``.
        build: parameters of ``SWAKVPool.__init__``.
        free_full: tombstoned locs have a call of their own.
    """

    write: tuple[str, ...]
    build: tuple[str, ...]
    free_full: bool

    @property
    def per_forward(self) -> bool:
        """The caller translates once a forward."""
        return "swa_loc" in self.write or "loc_info" in self.write


def traits(root: Path) -> Traits:
    """Read off a release's sources, below the folder that contains the ``sglang`` package."""
    folder = root / "sglang" / "srt" / "mem_cache"
    pools = (folder / "swa_memory_pool.py").read_text(encoding="utf-8")
    own = folder / "allocator" / "swa.py"
    allocator = own.read_text(encoding="utf-8") if own.is_file() else pools
    methods = {
        method.name: tuple(argument.arg for argument in (*method.args.args, *method.args.kwonlyargs))
        for node in ast.parse(pools).body
        if isinstance(node, ast.ClassDef) and node.name == "SWAKVPool"
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    return Traits(
        write=methods.get("set_kv_buffer", ()),
        build=methods.get("__init__", ()),
        free_full="def free_full(" in allocator,
    )


class SglangDialect:
    """See `Dialect`. Loc tensors are kept alive, so that no address comes back unless the tape says so."""

    def __init__(self, known: Traits, config: Config) -> None:
        self.known = known
        self.config = config
        self.dsv4 = config.pool == "dsv4"
        self._unused = 0

    def setup(self, config: Config) -> Lines:
        pool = (
            "deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool"
            if self.dsv4
            else "swa_memory_pool import SWAKVPool"
        )
        lines = [
            "open_release(sys.argv[1] if len(sys.argv) > 1 else None)",
            f"from sglang.srt.mem_cache.{pool}",
            "try:",
            "    from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator",
            "except ImportError:  # before 0.5.13",
            "    from sglang.srt.mem_cache.swa_memory_pool import SWATokenToKVPoolAllocator",
        ]
        if not self.dsv4 and "loc_info" in self.known.write:
            lines.append("from sglang.srt.mem_cache.memory_pool import KVWriteLoc")
        lines += [
            "from embedded.sim.targets.sglang import leaves",
            "",
            "leaves.install()  # plain torch in place of GPU kernels, where the release has no CPU version",
            *(self._dsv4_pool(config) if self.dsv4 else self._hybrid_pool(config)),
            "allocator = SWATokenToKVPoolAllocator(",
            f"    size={config.full_size}, size_swa={config.swa_size}, page_size={config.page_size}, dtype=pool.dtype,",
            f'    device="cpu", kvcache=pool, need_sort={config.need_sort},',
            ")",
        ]
        return lines

    def _hybrid_pool(self, config: Config) -> Lines:
        layers = {kind: [i for i, other in enumerate(config.layers) if other == kind] for kind in (FULL, SWA)}
        transpose = ", enable_kvcache_transpose=False" if "enable_kvcache_transpose" in self.known.build else ""
        return [
            "pool = SWAKVPool(",
            f"    size={config.full_size}, size_swa={config.swa_size}, page_size={config.page_size},",
            f"    dtype=torch.{config.dtype}, head_num=1, head_dim=4,",
            f"    swa_attention_layer_ids={layers[SWA]}, full_attention_layer_ids={layers[FULL]},",
            f'    device="cpu"{transpose},',
            ")",
        ]

    def _dsv4_pool(self, config: Config) -> Lines:
        count = len(config.layers)
        return [
            "pool = DeepSeekV4TokenToKVPool(",
            f"    max_num_reqs=1, swa_size={config.swa_size}, c4_size=0, c128_size=0,",
            "    c4_state_pool_size=0, c128_state_pool_size=0,",
            f"    page_size={config.page_size}, swa_page_size={config.page_size},",
            "    dtype=torch.float8_e4m3fn, state_dtype=torch.float32,",
            "    qk_nope_head_dim=448, qk_rope_head_dim=64, indexer_head_dim=128,",
            f'    layer_num={count}, device="cpu", enable_memory_saver=False, compression_ratios={[0] * count},',
            ")",
        ]

    def looks(self) -> dict[str, Lines]:
        config = self.config
        slots = config.swa_size + config.page_size
        rows = [
            "def rows(layer):  # what each slot of a layer holds",
            "    index, is_swa = pool.layers_mapping[layer]",
            "    half = pool.swa_kv_pool if is_swa else pool.full_kv_pool",
            "    return tags_of(half.k_buffer[index], half.v_buffer[index])",
        ]
        if self.dsv4:
            rows = [
                "def rows(layer):  # what each slot of a layer holds; a page's tokens are 72 words of 8 bytes apart",
                "    words = pool.swa_kv_pool.kv_buffer[layer].view(torch.int64)",
                f"    return words[:, : {config.page_size} * 72 : 72].reshape(-1)[:{slots}].tolist()",
            ]
        return {
            "attention": [
                "def attention(layer):  # stands for RadixAttention, of which only the layer's number is asked",
                "    return types.SimpleNamespace(layer_id=layer)",
            ],
            "kv": [
                "def kv(*tags):  # rows that tell tokens apart: the key is the tag, the value its negative",
                f"    key = torch.tensor(tags, dtype=torch.{config.dtype}).view(-1, 1, 1).repeat(1, 1, 4)",
                "    return key, -key",
            ],
            "k": [
                "def k(*tags):  # rows that tell tokens apart by their first eight bytes",
                "    return torch.tensor(tags, dtype=torch.int64).view(torch.bfloat16).view(-1, 4)",
            ],
            "tags_of": [
                "def tags_of(keys, values):  # the tag of each row; both tags where key and value differ",
                "    pairs = zip(keys[:, 0, 0].tolist(), values[:, 0, 0].tolist())",
                "    return [int(key) if value == -key else (key, value) for key, value in pairs]",
            ],
            "table": [
                "def table():  # full loc -> SWA loc",
                "    return pool.full_to_swa_index_mapping.tolist()",
            ],
            "rows": rows,
            "free_list": [
                "def free_list(half):",
                '    if hasattr(half, "get_all_free_pages"):',
                "        return half.get_all_free_pages().tolist()",
                "    return [*half.free_pages.tolist(), *half.release_pages.tolist()]",
            ],
            "free_full": ["def free_full():", "    return free_list(allocator.full_attn_allocator)"],
            "free_swa": ["def free_swa():", "    return free_list(allocator.swa_attn_allocator)"],
        }

    def alloc(self, count: int) -> Lines:
        return [f"new = ints(allocator.alloc({count}))"]

    def alloc_extend(self, prefix: list[int], seq: list[int], last: str) -> Lines:
        count = sum(seq) - sum(prefix)
        return [
            "# prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens",
            f"new = ints(allocator.alloc_extend(t({prefix}), t({prefix}), t({seq}), t({seq}), t({last}), {count}))",
        ]

    def alloc_decode(self, seq: list[int], last: str) -> Lines:
        return [
            "# seq_lens, seq_lens_cpu, last_loc",
            f"new = ints(allocator.alloc_decode(t({seq}), t({seq}), t({last})))",
        ]

    def alloc_tail(self, prefix: int, seq: int, last: str, tail: int) -> Lines:
        arguments = f"t([{prefix}]), t([{prefix}]), t([{seq}]), t([{seq}]), t([{last}]), {seq - prefix}, {tail}"
        return [
            "# prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens, swa_tail_len",
            f"new = ints(allocator.alloc_extend_swa_tail({arguments}))",
        ]

    def free(self, unmapped: str, mapped: str) -> Lines:
        if not self.known.free_full:
            return [f"allocator.free(t({' + '.join(locs for locs in (unmapped, mapped) if locs != '[]')}))"]
        calls = (("free_full", unmapped), ("free", mapped))
        return [f"allocator.{call}(t({locs}))" for call, locs in calls if locs != "[]"]

    def free_swa(self, locs: str) -> Lines:
        return [f"allocator.free_swa(t({locs}))"]

    def group(self, begin: bool) -> Lines:
        return [f"allocator.free_group_{'begin' if begin else 'end'}()"]

    def set_mapping(self, locs: str, count: int) -> Lines:
        return [
            f"fresh = allocator.swa_attn_allocator.alloc({count})",
            f"allocator.set_full_to_swa_mapping(t({locs}), fresh)",
            "slots = fresh.tolist()",
        ]

    def register_mapping(self, locs: str, count: int) -> Lines:
        lines = ["mapping = allocator.full_to_swa_index_mapping.clone()"]
        if count:
            lines += [
                f"fresh = allocator.swa_attn_allocator.alloc({count})",
                f"old = mapping[t({locs})]",
                f"mapping[t({locs})] = fresh",
            ]
        lines += ["allocator.full_to_swa_index_mapping = mapping", "pool.register_mapping(mapping)"]
        if count:
            lines += ["allocator.swa_attn_allocator.free(old[old > 0])", "slots = fresh.tolist()"]
        return lines

    def backup(self) -> Lines:
        return ["state = allocator.backup_state()"]

    def restore(self) -> Lines:
        return ["allocator.restore_state(state)"]

    def clear(self) -> Lines:
        return ["allocator.clear()"]

    def begin_forward(self, event: ev.BeginForward, count: int) -> Lines:
        self._unused = 0
        lines = [f"loc = {self._place('batch', event.storage, event.offset, count)}"]
        if not self.dsv4 and self.known.per_forward:
            lines.append("swa_loc = allocator.translate_loc_from_full_to_swa(loc)")
        elif event.precomputed:
            lines.append("pool.set_swa_loc(allocator.translate_loc_from_full_to_swa(loc))")
        return lines

    def _place(self, locs: str, storage: str, offset: int, count: int) -> str:
        if storage == "fresh" or offset + count > _BUFFER:
            return f"t({locs})"
        self._unused = offset + count
        return f"buffer[{offset}:{offset + count}].copy_(t({locs}))"

    def write(self, layer: int, tags: list[int]) -> Lines:
        values = ", ".join(map(str, tags))
        if self.dsv4:
            return [f"pool.set_swa_key_buffer_radix_fused({layer}, loc, k({values}))"]
        if "loc_info" in self.known.write:
            return [f"pool.set_kv_buffer(attention({layer}), KVWriteLoc(loc, swa_loc), *kv({values}))"]
        if "swa_loc" in self.known.write:
            return [f"pool.set_kv_buffer(attention({layer}), loc, *kv({values}), swa_loc=swa_loc)"]
        return [f"pool.set_kv_buffer(attention({layer}), loc, *kv({values}))"]

    def read(self, layer: int, locs: str) -> Lines:
        swa = self.config.layers[layer] == SWA
        where = f"allocator.translate_loc_from_full_to_swa(t({locs}))" if swa else f"t({locs})"
        if self.dsv4:
            size = self.config.page_size
            return [
                f"where = {where}",
                f"words = pool.get_swa_key_buffer_radix({layer}).view(torch.int64)",
                f"got = words[where // {size}, where % {size} * 72].tolist()",
            ]
        return [
            f"where = {where}",
            f"keys, values = pool.get_kv_buffer({layer})",
            "got = tags_of(keys[where], values[where])",
        ]

    def translate(self, event: ev.Translate, locs: str, count: int) -> Lines:
        if event.source == "batch":
            asked = f"loc[{event.start}:{event.stop}]"
        elif event.source == "view":
            asked = self._place(locs, "view", self._unused, count)
        else:
            asked = f"t({locs})"
        return [f"answer = allocator.translate_loc_from_full_to_swa({asked}).tolist()"]

    def cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"on_cpu[{copy}] = allocator.get_cpu_copy(t({locs}))"]

    def load_cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"allocator.load_cpu_copy(on_cpu[{copy}], t({locs}))"]

    def move(self, targets: str, sources: str) -> Lines:
        return [f"pool.move_kv_cache(t({targets}), t({sources}))"]
