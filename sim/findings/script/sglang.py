"""A release of SGLang in a script: the calls that our adapter makes, written out."""

from __future__ import annotations

from ....models.config import SWA
from ...parts.allocator import events as ev
from .dialect import Lines
from .release import ReleaseSetup

__all__ = ["ROOTS", "SglangDialect"]

ROOTS = (
    "staleloc.sim.targets.arena",
    "staleloc.sim.targets.sglang.environment",
    "staleloc.sim.targets.sglang.fakes",
    "staleloc.sim.targets.sglang.frees",
    "staleloc.sim.targets.sglang.leaves",
    "staleloc.sim.targets.sglang.seal",
)


class SglangDialect(ReleaseSetup):
    """See `Dialect`. Loc tensors come from an arena, so that addresses come back if the tape says so, and only then."""

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
        if self.known.free_full:
            return [f"frees.free({mapped}, {unmapped})  # locs with and without an SWA slot"]
        return [f"allocator.free(t({' + '.join(locs for locs in (unmapped, mapped) if locs != '[]')}))"]

    def free_swa(self, locs: str) -> Lines:
        return [f"frees.free_swa({locs})" if self.known.free_full else f"allocator.free_swa(t({locs}))"]

    def group(self, begin: bool) -> Lines:
        if self.known.free_full:
            return [f"frees.group({begin})"]
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
        lines = [f"loc = arena.place(batch, {event.storage!r}, {event.offset})"]
        if not self.dsv4 and self.known.per_forward:
            lines.append("swa_loc = allocator.translate_loc_from_full_to_swa(loc)")
        elif event.precomputed:
            lines.append("pool.set_swa_loc(allocator.translate_loc_from_full_to_swa(loc))")
        return lines

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
        else:
            asked = f"arena.ask({locs}, {event.source!r})"
        return [f"answer = allocator.translate_loc_from_full_to_swa({asked}).flatten().tolist()"]

    def cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"on_cpu[{copy}] = allocator.get_cpu_copy(t({locs}))"]

    def load_cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"allocator.load_cpu_copy(on_cpu[{copy}], t({locs}))"]

    def move(self, targets: str, sources: str) -> Lines:
        return [f"pool.move_kv_cache(t({targets}), t({sources}))"]

    def declared(self, kind: str, event: str) -> Lines:
        return [f"{event}.call(Cache(allocator, pool, full))"]
