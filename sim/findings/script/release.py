"""A release of SGLang in a script: import it sealed, build pool and allocator, look into them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from ....models.config import FULL, SWA, Config
from ...targets.sglang.hybrid import CHUNK
from .dialect import Lines

__all__ = ["ReleaseSetup", "Traits", "traits"]


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
    """Read off a release's sources, the folder of its package."""
    folder = root / "srt" / "mem_cache"
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


class ReleaseSetup:
    """The first half of `staleloc.sim.findings.script.sglang.SglangDialect`.

    Attributes:
        known: what this release's calls look like.
        dsv4: the pool is ``DeepSeekV4TokenToKVPool``.
    """

    def __init__(self, known: Traits, config: Config) -> None:
        self.known = known
        self.config = config
        self.dsv4 = config.pool == "dsv4"

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
        if self.known.free_full:
            lines.append("from embedded.sim.targets.sglang.frees import Frees")
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
            f"pool.full_kv_pool.cpu_offloading_chunk_size = pool.swa_kv_pool.cpu_offloading_chunk_size = {CHUNK}",
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
            "room": [
                "def room():  # tokens that are available, as it says itself",
                "    return allocator.full_available_size(), allocator.swa_available_size()",
            ],
        }
