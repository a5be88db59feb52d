"""Why a job is pending: every code, what its data holds, and the words that people read.

``docs/scheduling.md`` shows the same table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from schedulers.core.decision import Reason

#: Every code and the names of its data, in the order in which they are documented.
CODES: Final[dict[str, tuple[str, ...]]] = {
    "dependency": ("jobs", "jobs_total"),
    "host_lock": ("jobs", "jobs_total", "ahead", "cooling", "keys", "keys_total"),
    "project_update": ("project", "jobs", "ahead"),
    "source_update": ("source", "jobs", "ahead"),
    "inventory_update": ("inventory", "jobs", "ahead"),
    "same_template": ("template", "jobs", "ahead"),
    "same_workflow_template": ("workflow_template", "jobs", "ahead"),
    "exclusive_kind": ("kind", "jobs", "ahead"),
    "paused": ("scope", "name", "why"),
    "tenant_limit": ("tenant", "allowed", "used", "jobs", "jobs_total", "reserved_for"),
    "template_limit": ("template", "allowed", "used", "jobs", "jobs_total", "reserved_for"),
    "no_capacity": (
        "group",
        "needed",
        "free",
        "largest",
        "jobs",
        "jobs_total",
        "reserved_for",
    ),
    "node_limit": ("group", "nodes", "jobs", "jobs_total", "reserved_for"),
    "group_limit": (
        "group",
        "limit",
        "allowed",
        "used",
        "needed",
        "jobs",
        "jobs_total",
        "reserved_for",
    ),
    "all_drained": ("groups", "nodes"),
    "no_nodes_online": ("groups",),
    "start_limit": ("limit",),
    "returned": ("node", "why"),
    "unprocessed": (),
    "quarantined": ("until", "strikes"),
    "approval": ("until",),
}

#: Reasons during which a job has no turn to keep: for these it does not count as held.
WITHOUT_TURN: Final = frozenset(
    {"dependency", "paused", "all_drained", "no_nodes_online", "returned"}
)


def cause(reason: Reason) -> tuple[object, ...]:
    """What a reason is about, without its numbers.

    A stored reason is rewritten when its cause changes. Its numbers change in every pass, and a
    backlog of thousands must not be rewritten for them; the explain call computes them anew.
    """
    return (reason.code, *map(reason.data.get, ("group", "limit", "why", "scope", "name")))


def words(code: str, data: Mapping[str, Any]) -> str:
    """One English sentence for people.

    A reason of another release, whose code or data are not known here, shows its code.
    """
    try:
        return _WORDS[code](data)
    except (AttributeError, IndexError, KeyError, TypeError):
        return f"Waits: {code}."


def _jobs(ids: Iterable[int], total: int | None = None) -> str:
    listed = list(ids)
    more = 0 if total is None else total - len(listed)
    names = [str(job_id) for job_id in listed] + ([f"{more} more"] if more > 0 else [])
    word = "job" if len(listed) == 1 and more <= 0 else "jobs"
    return f"{word} {', '.join(names[:-1])} and {names[-1]}" if names[1:] else f"{word} {names[0]}"


def _kept(data: Mapping[str, Any], verb: str) -> str:
    """Who has what the job lacks: " held by jobs 1, 2 and 7 more; kept for job 9"."""
    held = f"; {verb} {_jobs(data['jobs'], data['jobs_total'])}" if data["jobs"] else ""
    kept = data["reserved_for"]
    return held + ("" if kept is None else f"; kept for job {kept}, which waits longest")


def _dependency(data: Mapping[str, Any]) -> str:
    return f"Waits for {_jobs(data['jobs'], data['jobs_total'])}, on which it depends."


def _host_lock(data: Mapping[str, Any]) -> str:
    more = data["keys_total"] - len(data["keys"])
    hosts = ", ".join(map(_locked, data["keys"])) + (f" and {more} more" if more > 0 else "")
    return f"Waits for the locks on {hosts}: {_before(data, data['jobs_total'])}."


def _locked(key: str) -> str:
    """What a lock key stands for (``host:<address>:<port>``, ``inventory:<digest>``)."""
    return "the whole inventory" if key.startswith("inventory:") else key.removeprefix("host:")


def _exclusive_kind(data: Mapping[str, Any]) -> str:
    return f"One {data['kind']} job runs at a time: {_before(data, None)}."


def _project_update(data: Mapping[str, Any]) -> str:
    return f"Waits for an update of project {data['project']}: {_before(data, None)}."


def _source_update(data: Mapping[str, Any]) -> str:
    return f"Waits for an update of inventory source {data['source']}: {_before(data, None)}."


def _inventory_update(data: Mapping[str, Any]) -> str:
    return f"Waits for an update of inventory {data['inventory']}: {_before(data, None)}."


def _same_template(data: Mapping[str, Any]) -> str:
    return f"One job of template {data['template']} runs at a time: {_before(data, None)}."


def _same_workflow_template(data: Mapping[str, Any]) -> str:
    which = data["workflow_template"]
    return f"One workflow of workflow template {which} runs at a time: {_before(data, None)}."


def _paused(data: Mapping[str, Any]) -> str:
    whose = {"all": "Everything", "group": "Instance group", "tenant": "Organization"}
    why = f": {data['why'].rstrip('.')}" if data["why"] else ""
    name = f" {data['name']}" if data["name"] else ""
    return f"{whose[data['scope']]}{name} is paused{why}."


def _tenant_limit(data: Mapping[str, Any]) -> str:
    return _limited(f"Organization {data['tenant']}", data)


def _template_limit(data: Mapping[str, Any]) -> str:
    return _limited(f"Job template {data['template']}", data)


def _limited(whose: str, data: Mapping[str, Any]) -> str:
    running = f"runs {data['used']} of at most {data['allowed']} jobs"
    return f"{whose} {running}{_kept(data, 'these are')}."


def _before(data: Mapping[str, Any], total: int | None) -> str:
    held = [f"held by {_jobs(data['jobs'], total)}"] if data["jobs"] else []
    waits = "waits" if len(data["ahead"]) == 1 else "wait"
    ahead = [f"{_jobs(data['ahead'])} {waits} longer"] if data["ahead"] else []
    ended = data.get("cooling") or ()
    cooling = [f"kept for a while after {_jobs(ended)} stopped by force"] if ended else []
    return "; ".join(held + ahead + cooling)


def _no_capacity(data: Mapping[str, Any]) -> str:
    group, needed, free, largest = (data[k] for k in ("group", "needed", "free", "largest"))
    held = _kept(data, "the rest is held by")
    if needed > largest:
        return (
            f"Needs {needed} of capacity and the largest node of group {group} has {largest}:"
            f" runs alone on the largest idle node, and none is idle{held}."
        )
    return f"Needs {needed} of capacity in group {group}; the freest node has {free} free{held}."


def _node_limit(data: Mapping[str, Any]) -> str:
    nodes = "the only node" if data["nodes"] == 1 else f"each of the {data['nodes']} nodes"
    held = _kept(data, "held by")
    return f"In group {data['group']}, {nodes} runs as many jobs as it may{held}."


def _group_limit(data: Mapping[str, Any]) -> str:
    group, limit, allowed, used, needed = (
        data[k] for k in ("group", "limit", "allowed", "used", "needed")
    )
    if needed > allowed:
        return f"Needs {needed}, more than {limit} of group {group} ever allows ({allowed})."
    held = _kept(data, "held by")
    return f"{limit} of group {group} is {allowed}, {used} in use, {needed} needed{held}."


def _groups(names: Iterable[str]) -> str:
    listed = list(names)
    return f"group{'s' if listed[1:] else ''} {', '.join(listed)}"


def _all_drained(data: Mapping[str, Any]) -> str:
    nodes = "The only node" if data["nodes"] == 1 else f"All {data['nodes']} nodes"
    return (
        f"{nodes} online in {_groups(data['groups'])} {'is' if data['nodes'] == 1 else 'are'}"
        " disabled, draining, not accepting jobs or without capacity."
    )


def _no_nodes_online(data: Mapping[str, Any]) -> str:
    if not data["groups"]:
        return "None of the job's instance groups exists any more."
    return f"No node is online in {_groups(data['groups'])}."


def _start_limit(data: Mapping[str, Any]) -> str:
    return f"A pass starts at most {data['limit']} jobs; the next one goes on."


_WHY: Final = {
    "lost": "the node was lost",
    "suspect": "the node has gone silent",
    "left": "the node has left",
    "removed": "the node was removed",
    "draining": "the node is being drained",
    "disabled": "the node was disabled",
    "not_claimed": "it was not claimed there in time",
    "inventory_moved": "its inventory has changed since its hosts were locked",
}


def _returned(data: Mapping[str, Any]) -> str:
    # a node that stops taking jobs gives its own words
    return f"Taken back from node {data['node']}: {_WHY.get(data['why'], data['why'])}."


def _unprocessed(_data: Mapping[str, Any]) -> str:
    return "The DependencyManager has not looked yet at what it depends on."


def _quarantined(data: Mapping[str, Any]) -> str:
    times = "once" if data["strikes"] == 1 else f"{data['strikes']} times"
    return f"Set aside until {data['until']}: deciding about it has failed {times}."


def _approval(data: Mapping[str, Any]) -> str:
    until = "" if data["until"] is None else f", until {data['until']}"
    return f"Waits for somebody to approve or deny it{until}."


_WORDS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "dependency": _dependency,
    "host_lock": _host_lock,
    "project_update": _project_update,
    "source_update": _source_update,
    "inventory_update": _inventory_update,
    "same_template": _same_template,
    "same_workflow_template": _same_workflow_template,
    "exclusive_kind": _exclusive_kind,
    "paused": _paused,
    "tenant_limit": _tenant_limit,
    "template_limit": _template_limit,
    "no_capacity": _no_capacity,
    "node_limit": _node_limit,
    "group_limit": _group_limit,
    "all_drained": _all_drained,
    "no_nodes_online": _no_nodes_online,
    "start_limit": _start_limit,
    "returned": _returned,
    "unprocessed": _unprocessed,
    "quarantined": _quarantined,
    "approval": _approval,
}
