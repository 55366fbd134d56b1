# SPDX-License-Identifier: GPL-2.0
"""Kernel configuration: what was asked for is what is built."""

from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.kernel import config, kbuild, tree


def test_parse_reads_values_and_unset_options() -> None:
    text = '# a comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="a b"\nCONFIG_D=64\n'
    assert config.parse(text) == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": '"a b"', "CONFIG_D": "64"}


def test_a_later_fragment_wins(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("CONFIG_A=y\nCONFIG_B=m\n")
    (tmp_path / "b").write_text("CONFIG_B=y\n")
    assert config.merge([tmp_path / "a", tmp_path / "b"]) == {"CONFIG_A": "y", "CONFIG_B": "y"}


@pytest.mark.parametrize("got", ["", "CONFIG_A=m", "# CONFIG_A is not set"])
def test_a_lost_option_is_an_error_that_names_it(got: str) -> None:
    with pytest.raises(FerryError, match="CONFIG_A=y"):
        config.verify({"CONFIG_A": "y"}, config.parse(got))


def test_an_option_that_must_be_off_is_verified_too() -> None:
    config.verify({"CONFIG_A": "n"}, {})
    with pytest.raises(FerryError, match=r"CONFIG_A=n \(is y\)"):
        config.verify({"CONFIG_A": "n"}, {"CONFIG_A": "y"})


def test_kernels_that_are_compared_differ_in_nothing_but_ferry() -> None:
    patch = config.added(" config MIGRATION\n+menuconfig SOFTDMA\n-config OLD\n")
    own = config.defined(["config MIGRATE_OFFLOAD\n\tbool\n", patch])
    assert own == {"CONFIG_MIGRATE_OFFLOAD", "CONFIG_SOFTDMA"}
    vanilla = {"CONFIG_A": "y"}
    config.verify_same(vanilla, {"CONFIG_A": "y", "CONFIG_SOFTDMA": "m"}, own)
    with pytest.raises(FerryError, match="differ in CONFIG_DMA_ENGINE:"):
        config.verify_same(vanilla, {"CONFIG_A": "y", "CONFIG_DMA_ENGINE": "y"}, own)


def test_every_option_of_ferry_is_in_a_fragment_or_selected() -> None:
    """A new option that nobody switches on would be built and tested by nobody."""
    fragments = tree.HERE.fragments(("common", "ferry", "test", "kunit", "debug"))
    selected = {
        "CONFIG_MIGRATE_OFFLOAD",
        "CONFIG_MIGRATE_OFFLOAD_HUGETLB",
        "CONFIG_MIGRATE_OFFLOAD_MTCOPY_CPUS",
        "CONFIG_ARCH_BATCHED_UNMAP_FLUSHES_MM",
        "CONFIG_MIGRATE_RANGES",
    }
    assert kbuild.own_options(tree.HERE) - config.merge(fragments).keys() <= selected
