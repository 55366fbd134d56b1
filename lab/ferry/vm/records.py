# SPDX-License-Identifier: GPL-2.0
"""What guests write for the lab's programs: records, each a line of JSON whose first key says what it is.

{"record": "move", "us": 90000, "requests": 40, "pages": 990}

record() of guest/lib.sh writes them. All are read here, out of whatever else a guest has said meanwhile.
"""

import json
import re
from contextlib import suppress
from typing import Any

from ferry.errors import FerryError, quoted

Record = dict[str, Any]

TAIL_LINES = 5
TAIL_LETTERS = 200
_DECODER = json.JSONDecoder()


def every(said: str, kind: str) -> list[Record]:
    """The records of a kind, in order. What is no record is passed over, and so is one that was cut short."""
    said = said.replace("\r", "")
    matching = []
    # The kind is looked for, and not the line: a kernel's message may stand before it, or have no end.
    for begin in re.finditer(rf'\{{"record": "{re.escape(kind)}"', said):
        with suppress(ValueError):
            matching.append(_DECODER.raw_decode(said, begin.start())[0])
    return matching


def of(said: str, kind: str) -> Record:
    """The one record of a kind. Raises FerryError if there is none, or several."""
    matching = every(said, kind)
    if len(matching) != 1:
        tail = quoted(line[:TAIL_LETTERS] for line in said.splitlines()[-TAIL_LINES:])
        raise FerryError(f"{len(matching)} records '{kind}' instead of one; what was said ends with:{tail}")
    return matching[0]
