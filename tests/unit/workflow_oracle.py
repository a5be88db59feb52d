"""The rules of workflows a second time, slowly, from the prose of docs/scheduling.md: an oracle.

Nothing of ``schedulers.core`` is used here. A node is a dictionary; the answer is found by asking
every node the same questions until nothing changes.
"""

from __future__ import annotations

#: Which edges a parent follows, by how it ended. "error, canceled, denied, timed out" are said
#: one by one on purpose.
FOLLOWS = {
    "successful": {"success", "always"},
    "failed": {"failure", "always"},
    "error": {"failure", "always"},
    "canceled": {"failure", "always"},
    "template deleted": {"failure", "always"},
    "not started": {"failure", "always"},
    "do_not_run": set(),
}
FINAL = ("successful", "failed", "error", "canceled")


def node(status=None, *, all_=False, do_not_run=False, deleted=False, not_started=False):
    """status: of its job; None: it has none."""
    return {
        "status": status,
        "all": all_,
        "do_not_run": do_not_run,
        "deleted": deleted,
        "not_started": not_started,
    }


def answer(nodes, edges):
    """What the rules say: (nodes to run, to skip, whose template is missed, done, failed)."""
    ends = {name: _known_end(each) for name, each in nodes.items()}
    to_run, to_skip, missed = set(), set(), set()
    changed = True
    while changed:
        changed = False
        for name, each in nodes.items():
            if ends[name] is not None or each["status"] is not None or name in to_run:
                continue
            verdict = _verdict(name, each, edges, ends)
            if verdict == "wait":
                continue
            changed = True
            if verdict == "do_not_run":
                ends[name] = "do_not_run"
                to_skip.add(name)
            elif each["deleted"]:
                ends[name] = "template deleted"
                missed.add(name)
            else:
                to_run.add(name)
    done = all(end is not None for end in ends.values())
    bad = {
        name
        for name, end in ends.items()
        if end in ("failed", "error", "canceled", "template deleted", "not started")
        and not any(parent == name and kind in ("failure", "always") for parent, _, kind in edges)
    }
    return to_run, to_skip, missed, done, bad


def _known_end(each):
    if each["do_not_run"]:
        return "do_not_run"
    if each["not_started"]:
        return "not started"
    return each["status"] if each["status"] in FINAL else None


def _verdict(name, each, edges, ends):
    parents = {parent for parent, child, _ in edges if child == name}
    if not parents:
        return "run"

    def leads(parent):
        return any(
            (p, c) == (parent, name) and kind in FOLLOWS[ends[parent]] for p, c, kind in edges
        )

    decided = {parent for parent in parents if ends[parent] is not None}
    if each["all"]:
        if any(ends[p] == "do_not_run" or not leads(p) for p in decided):
            return "do_not_run"
        return "run" if decided == parents else "wait"
    if decided != parents:
        return "wait"
    return "run" if any(leads(p) for p in parents) else "do_not_run"
