# SPDX-License-Identifier: GPL-2.0
"""The profile of a migration: the plugin's table, what it wrote, and what must not be asked for."""

import pytest

from ferry.bench import steps
from ferry.errors import FerryError, UsageError

SYSTEM_MAP = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 T migrate_pages
ffffffff81000100 t migrate_pages_alias
ffffffff81000180 t migrate_pages_batch
ffffffff81000200 T __x64_sys_move_pages
ffffffff81000300 t __mod_node_page_state.part.0
ffffffff81000380 T rmap_walk
ffffffff810003c0 T asm_sysvec_apic_timer_interrupt
ffffffff81000400 T _etext
ffffffff82000000 D some_data
"""


def test_table_has_roles_and_steps() -> None:
    """The entry, what makes it a move, and the steps; names that the compiler changed count as well."""
    lines = [line.split() for line in steps.table(SYSTEM_MAP, "move_pages").splitlines()]
    roles = {name: (role, step) for _, role, step, name in lines}
    assert roles["__x64_sys_move_pages"] == ("start", "-")
    assert roles["migrate_pages"] == ("must", str(steps.STEPS.index("move")))
    assert roles["migrate_pages_batch"] == ("-", "-")
    assert roles["__mod_node_page_state.part.0"][1] == str(steps.STEPS.index("statistics"))
    assert roles["rmap_walk"][1] == f"{steps.STEPS.index('restore')}/{steps.STEPS.index('move')}"
    assert roles["asm_sysvec_apic_timer_interrupt"][0] == "trap"
    assert "migrate_pages_alias" not in roles
    assert lines[-1][3] == "_etext"


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("__alloc_pages_noprof", "__alloc_frozen_pages_noprof", "allocate"),
        ("set_tlb_ubc_flush_pending.isra.0", "note_tlb_ubc_flush.isra.0", "flush"),
        ("set_tlb_ubc_flush_pending_range.isra.0", "note_tlb_ubc_flush.isra.0", "flush"),
        ("free_unref_page", "free_frozen_pages", "free"),
        ("__lruvec_stat_mod_folio", "lruvec_stat_mod_folio", "statistics"),
        ("__count_memcg_events", "count_memcg_events", "statistics"),
    ],
)
def test_a_function_of_another_name_on_another_base_is_of_the_same_step(
    old: str, new: str, step: str
) -> None:
    """Otherwise two bases beside each other would differ where nothing does."""
    assert steps._step(old) == steps._step(new) == str(steps.STEPS.index(step))


def test_promotion_begins_with_the_fault() -> None:
    """It is no system call; an interrupt in between is one still."""
    system_map = SYSTEM_MAP.replace("__x64_sys_move_pages", "asm_exc_page_fault")
    roles = dict(line.split()[3:0:-2] for line in steps.table(system_map, "promote").splitlines())
    assert roles["asm_exc_page_fault"] == "start"
    assert roles["asm_sysvec_apic_timer_interrupt"] == "trap"


def test_promotion_needs_a_slow_node() -> None:
    with pytest.raises(UsageError, match="--profile cxl"):
        steps.Plan(call="promote").check()
    steps.Plan(call="promote", server="cxl").check()


def test_table_without_the_call_is_refused() -> None:
    """A profile of nothing would be empty, and look fast."""
    with pytest.raises(FerryError, match="mbind"):
        steps.table(SYSTEM_MAP, "mbind")


def test_counts_are_per_folio_and_modules_get_names() -> None:
    """Blocks of one function of a module add up; what lies before all symbols is unknown."""
    text = "2 alloc_pages 40\n1 ffffffffc0000010 6\n1 ffffffffc0000018 2\n1 ffffffffa0000000 4\n"
    found = steps.parse(text, [(0xFFFFFFFFC0000008, "dcbm_submit"), (0xFFFFFFFFC0001000, "later")], 4)
    assert found == {
        ("allocate", "alloc_pages"): 10.0,
        ("engine", "dcbm_submit"): 2.0,
        ("engine", "unknown"): 1.0,
    }
    profile = steps.breakdown(4, "dcbm", 16, found)
    assert profile["instructions"] == 13.0
    assert profile["steps"]["engine"] == 3.0
    assert steps.by_function(profile) == {"alloc_pages": 10.0, "dcbm_submit": 2.0, "unknown": 1.0}


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (steps.Plan(engines=("mtcopy",)), "mtcopy"),
        (steps.Plan(folios=("3K",)), "3K"),
        (steps.Plan(call="madvise"), "madvise"),
        (steps.Plan(call="mbind", order="random"), "mbind moves in order"),
        (steps.Plan(channels=17), "17 channels"),
        (steps.Plan(size="much"), "much"),
    ],
)
def test_what_cannot_be_profiled_is_said(plan: steps.Plan, word: str) -> None:
    """Before anything is built."""
    with pytest.raises(UsageError, match=word):
        plan.check()


def test_the_order_is_migbenchs() -> None:
    assert "--runs 1 --order random" in steps.script(steps.Plan(order="random"), "none", "4K")
