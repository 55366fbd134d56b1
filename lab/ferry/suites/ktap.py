# SPDX-License-Identifier: GPL-2.0
"""Read TAP and KTAP, as KUnit and kselftests write it. A case that is missing counts as failed."""

import re
from dataclasses import dataclass

_PLAN = re.compile(r"( *)1\.\.(\d+)")
_CASE = re.compile(r"( *)(ok|not ok) \d+(?: -)?(?: (?P<name>[^#]*))?(?:# ?(?P<note>.*))?")


@dataclass(frozen=True)
class Case:
    """One line of a result. Outcome is ok, skip or fail; note has the reason."""

    name: str
    outcome: str
    note: str = ""


def parse(text: str) -> list[Case]:
    """The cases in order, inner ones before the suite that they belong to."""
    cases: list[Case] = []
    promised: dict[int, int] = {}  # by indentation: results that are still to come
    planned = False
    for line in text.splitlines():
        if plan := _PLAN.fullmatch(line):
            _missing(promised, len(plan[1]), cases)
            promised[len(plan[1])] = int(plan[2])
            planned = True
        elif case := _CASE.fullmatch(line):
            depth = len(case[1])
            _missing(promised, depth + 1, cases)
            if depth in promised:  # KUnit does not say how many parameters a test has
                promised[depth] -= 1
            note = (case["note"] or "").strip()
            cases.append(Case((case["name"] or "").strip(), _outcome(case[2], note), note))
    _missing(promised, 0, cases)
    if not planned:
        cases.append(Case("(plan)", "fail", "no results at all"))
    return cases


def failed(cases: list[Case]) -> list[str]:
    """The failed cases, for a message."""
    return [f"{case.name}: {case.note}".rstrip(": ") for case in cases if case.outcome == "fail"]


def skipped(cases: list[Case]) -> list[str]:
    return [f"{case.name}: {case.note}" for case in cases if case.outcome == "skip"]


def _outcome(word: str, note: str) -> str:
    if word != "ok":
        return "fail"
    return "skip" if note.upper().startswith("SKIP") else "ok"


def _missing(promised: dict[int, int], depth: int, cases: list[Case]) -> None:
    """Close all lists at this depth or deeper; what they still owe has failed."""
    for inner in [d for d in promised if d >= depth]:
        owed = promised.pop(inner)
        if owed:
            cases.append(Case("(plan)", "fail", f"{owed} more results were promised"))
