# SPDX-License-Identifier: GPL-2.0
"""What the administrator sets: refused whole, or taken whole."""

import pytest

from ferry.vm import records
from tests import guest

pytestmark = pytest.mark.vm

SCRIPT = """
cd $OFFLOAD
say() { record said what "$1 $2"; }
take() { if echo "$2" >$1 2>/dev/null; then say "$1=$2" taken; else say "$1=$2" refused; fi; }
say active "$(cat active)"
take active nobody
take window_pages 64
take chunk_pages 65
take chunk_pages 64
take window_pages 262145
take stripe_bytes 4097
take reasons everything
take reasons "demotion damon"
say reasons "$(cat reasons)"
modprobe mtcopy
say active "$(cat active)"
say available "$(cat available)"
take active mtcopy
if rmmod mtcopy 2>/dev/null; then say rmmod done; else say rmmod refused; fi
take active none
if rmmod mtcopy 2>/dev/null; then say rmmod done; else say rmmod refused; fi
say available "$(cat available)"
"""

EXPECTED = [
    "active none",
    "active=nobody refused",
    "window_pages=64 taken",
    "chunk_pages=65 refused",
    "chunk_pages=64 taken",
    "window_pages=262145 refused",
    "stripe_bytes=4097 refused",
    "reasons=everything refused",
    "reasons=demotion damon taken",
    "reasons demotion damon",
    "active none",
    "available cpu mtcopy",
    "active=mtcopy taken",
    "rmmod refused",
    "active=none taken",
    "rmmod done",
    "available cpu",
]


def test_settings_are_validated_and_the_active_module_is_pinned() -> None:
    """One boot, one script, every answer."""
    said = guest.says(SCRIPT, limit_s=90.0)
    assert [record["what"] for record in records.every(said, "said")] == EXPECTED
