# SPDX-License-Identifier: GPL-2.0
"""The fit finds the parameters that made the figures."""

from functools import partial

import pytest

from ferry.server.profile import Dma
from ferry.tables import fit

TRUE = Dma(16, 2, 3000, 3600, 18000, 2500)
FOLIOS = {"4K": 6500.0, "2M": 840000.0}
COUNTS = (1, 2, 4, 8, 12, 16)


def test_copies_share_paths_and_memory() -> None:
    size = 3_600_000
    assert fit.copy_ns(TRUE, size, 1) == 2500 + size / 3.0
    assert fit.copy_ns(TRUE, size, 2) == (2500 + size / 1.8) / 2
    assert fit.copy_ns(TRUE, size, 16) == (2500 + size / 1.125) / 16


def test_search_finds_what_made_the_figures() -> None:
    other = {(folio, n): 2000.0 for folio in FOLIOS for n in COUNTS}
    posted = {
        (folio, n): fit.predict(TRUE, folio, n, FOLIOS[folio], 2000.0) for folio in FOLIOS for n in COUNTS
    }
    start = Dma(16, 2, 1, 1, 1, 1)
    found = fit.search(start, partial(fit._loss, posted, FOLIOS, other))
    for name in ("channel_mb_s", "path_mb_s", "total_mb_s", "descriptor_ns"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.02), name
