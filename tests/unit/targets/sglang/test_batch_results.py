"""How a scheduler's source is read: around which results it opens a free group, and what it does with an abort."""

from __future__ import annotations

from pathlib import Path

from staleloc.sim.targets.sglang.batch_results import BatchResults

GROUPED = "        self.token_to_kv_pool_allocator.free_group_begin()\n"
PLAIN = "        pass\n"


def read(folder: Path, name: str, **methods: str) -> BatchResults:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    body = "".join(f"    def {method}(self, batch):\n{lines}\n" for method, lines in methods.items())
    path.write_text(f"class Processor:\n{body}", encoding="utf-8")
    return BatchResults.of(folder)


def test_each_method_is_read_by_itself(tmp_path: Path) -> None:
    """A group of the next method is not one of this."""
    found = read(
        tmp_path,
        "scheduler_output_processor_mixin.py",
        process_batch_result_prebuilt=GROUPED,
        process_batch_result_prefill=PLAIN,
        process_batch_result_decode=GROUPED,
    )
    assert found == BatchResults(frozenset({"prebuilt", "decode"}), drops_aborted=False)
    assert not found.opens("prefill", decode_tree=True)
    assert found.opens("decode", decode_tree=False)
    assert [found.opens("prebuilt", decode_tree=tree) for tree in (False, True)] == [False, True]


def test_an_aborted_request_is_dropped_where_the_scheduler_says_so(tmp_path: Path) -> None:
    release = "        release_kv_cache(req, self.tree_cache, is_insert=False)\n"
    name = "scheduler_components/batch_result_processor.py"
    assert read(tmp_path, name, _handle_sampling_mask_abort=release).drops_aborted
    assert not read(tmp_path, name, _handle_sampling_mask_abort=PLAIN, later=release).drops_aborted


def test_sources_without_a_processor_open_no_group(tmp_path: Path) -> None:
    assert BatchResults.of(tmp_path) == BatchResults(frozenset(), drops_aborted=False)
