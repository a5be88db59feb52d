"""The trace of a cluster: nodes, groups, tenants and jobs in JSON lines (docs/scheduling.md, "Simulation").

Reading is streaming: jobs are made as the simulation asks for them, so a trace of any length fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from dispatcher.domain.status import Kind
from schedulers.core.simulate import Arrival
from schedulers.core.snapshot import Group, Node, PendingJob, Tenant, World

VERSION: Final = 1
#: An hour for each point of priority, as in the rank of stored jobs.
PRIORITY_STEP: Final = 3600.0
_KINDS: Final = {str(kind): kind for kind in (Kind.PLAYBOOK, Kind.WORKFLOW)}
_LOCKS: Final = ("none", "shared", "exclusive")


class TraceError(Exception):
    """A line of a trace that is not as it should be.

    Attributes:
        line: its number, from 1.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class Trace:
    """A trace that is being read.

    Attributes:
        world: everything before the first job.
        arrivals: the jobs, in order; to be read once. Raises :class:`TraceError`.
        tenants, groups: id → name; the tenants of jobs are added as they come.
    """

    world: World
    arrivals: Iterator[Arrival]
    tenants: Mapping[int, str]
    groups: Mapping[int, str]


def read_trace(lines: Iterable[str]) -> Trace:
    """Read what comes before the first job; the jobs follow as they are asked for.

    Raises:
        TraceError: a line of the head is wrong.
    """
    return _Reader(enumerate(lines, 1)).read()


@dataclass
class _Reader:
    numbered: Iterator[tuple[int, str]]
    began: float = 0.0
    reserve_after: float = 60.0
    nodes: list[tuple[Node, tuple[str, ...]]] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    templates: dict[str, int] = field(default_factory=dict)
    jobs: int = 0
    last: float = float("-inf")
    tenant_names: dict[int, str] = field(default_factory=dict)

    def read(self) -> Trace:
        first = self._head()
        members: dict[str, list[int]] = {name: [] for name in self.groups}
        for node, joins in self.nodes:
            for name in joins:
                self._group(name)
                members.setdefault(name, []).append(node.id)
        groups = {
            name: Group(g.id, name, g.max_concurrent_jobs, g.max_forks, tuple(members[name]))
            for name, g in self.groups.items()
        }
        world = World(
            now=datetime.fromtimestamp(self.began, UTC),
            nodes=tuple(node for node, _ in self.nodes),
            groups=tuple(groups.values()),
            active=(),
            reserve_after=self.reserve_after,
            tenants=tuple(self.tenants.values()),
        )
        names = {group.id: name for name, group in groups.items()}
        return Trace(world, self._arrivals(first), self.tenant_names, names)

    def _head(self) -> tuple[int, dict[str, Any]] | None:
        """Everything before the first job; that job's line."""
        number = 0
        for number, line in self.numbered:
            row = _parse(number, line)
            if row is None:
                continue
            if "job" in row:
                self._check_head(number)
                return number, row
            kind = next((k for k in ("trace", "tenant", "group", "node") if k in row), None)
            if kind is None:
                raise TraceError(number, "none of trace, tenant, group, node, job is in it")
            getattr(self, f"_read_{kind}")(_Fields(number, row))
        self._check_head(number)
        return None

    def _check_head(self, number: int) -> None:
        if not self.nodes:
            raise TraceError(number, "no node comes before the first job")

    def _read_trace(self, fields: _Fields) -> None:
        if fields.number("trace", least=1) != VERSION:
            raise TraceError(fields.line, f"trace: {fields.row['trace']}; this reads {VERSION}")
        self.began = fields.number("began", 0.0)
        self.reserve_after = fields.number("reserve_after", 60.0)
        fields.end()

    def _read_tenant(self, fields: _Fields) -> None:
        name = fields.word("tenant")
        tenant = self._tenant(name)
        self.tenants[name] = Tenant(
            tenant,
            name,
            fields.number("weight", 1.0, least=0.001),
            int(fields.number("max_concurrent_jobs", 0)),
        )
        fields.end()

    def _read_group(self, fields: _Fields) -> None:
        name = fields.word("group")
        known = self._group(name)
        most = int(fields.number("max_concurrent_jobs", 0))
        self.groups[name] = Group(known.id, name, most, int(fields.number("max_forks", 0)), ())
        fields.end()

    def _read_node(self, fields: _Fields) -> None:
        name = fields.word("node")
        capacity = int(fields.number("capacity", least=0))
        most = int(fields.number("max_jobs", 200, least=1))
        node = Node(len(self.nodes) + 1, name, capacity, most, "alive", True, False, True)
        self.nodes.append((node, fields.words("groups", ("default",))))
        fields.end()

    def _arrivals(self, first: tuple[int, dict[str, Any]] | None) -> Iterator[Arrival]:
        if first is None:
            return
        yield self._arrival(_Fields(*first))
        for number, line in self.numbered:
            row = _parse(number, line)
            if row is None:
                continue
            if "job" not in row:
                raise TraceError(number, "only jobs come after the first job")
            yield self._arrival(_Fields(number, row))

    def _arrival(self, fields: _Fields) -> Arrival:
        self.jobs += 1
        at = self.began + fields.number("at")
        if at < self.last:
            raise TraceError(fields.line, "at: it comes before the job above it")
        self.last = at
        wanted = fields.words("groups", ("default",))
        unknown = [name for name in wanted if name not in self.groups]
        if unknown:
            raise TraceError(fields.line, f"groups: no node is in {', '.join(unknown)}")
        template = fields.word("template", "")
        kind = fields.choice("kind", tuple(_KINDS), "playbook")
        job = PendingJob(
            id=self.jobs,
            kind=_KINDS[kind],
            name=fields.word("job"),
            organization_id=self._tenant(fields.word("tenant", "Default")),
            rank=at - PRIORITY_STEP * fields.number("priority", 0, least=float("-inf")),
            task_impact=int(fields.number("impact", 0 if kind == "workflow" else 2)),
            forks=int(fields.number("forks", 5)),
            preferred_groups=tuple([self.groups[name].id for name in wanted]),
            host_lock=fields.choice("host_lock", _LOCKS, "none"),
            lock_keys=fields.words("lock_keys", ()),
            created=at,
            held_since=at,
            job_template_id=self._template(template) if template else None,
            allow_simultaneous=fields.flag("allow_simultaneous", True),
        )
        arrival = Arrival(job, at, fields.number("duration"))
        fields.end()
        return arrival

    def _tenant(self, name: str) -> int:
        for_name = self.tenants.get(name)
        if for_name is None:
            for_name = self.tenants[name] = Tenant(len(self.tenants) + 1, name)
        self.tenant_names[for_name.id] = name
        return for_name.id

    def _group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group(len(self.groups) + 1, name, 0, 0, ()))

    def _template(self, name: str) -> int:
        return self.templates.setdefault(name, len(self.templates) + 1)


def _parse(number: int, line: str) -> dict[str, Any] | None:
    """The object on a line; None: the line is empty."""
    if not line.strip():
        return None
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TraceError(number, f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise TraceError(number, "not a JSON object")
    return row


class _Fields:
    """The fields of one line, each taken once; what is left over was not meant to be there."""

    __slots__ = ("line", "row", "taken")

    def __init__(self, line: int, row: dict[str, Any]) -> None:
        self.line = line
        self.row = row
        self.taken = 0

    def number(self, name: str, default: float | None = None, *, least: float = 0) -> float:
        """A number of at least so much."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            limit = "" if least == float("-inf") else f" of at least {least:g}"
            raise TraceError(self.line, f"{name}: not a number{limit}: {value!r}")
        return value

    def word(self, name: str, default: str | None = None) -> str:
        """A text; not empty unless that is the default."""
        value = self._take(name, default)
        if not isinstance(value, str) or (not value and default is None):
            raise TraceError(self.line, f"{name}: not a text: {value!r}")
        return value

    def words(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of texts."""
        if name not in self.row:
            return default
        value = self._take(name, default)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise TraceError(self.line, f"{name}: not a list of texts: {value!r}")
        return tuple(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise TraceError(self.line, f"{name}: neither true nor false: {value!r}")
        return value

    def choice(self, name: str, among: tuple[str, ...], default: str) -> str:
        """One of some words."""
        value = self._take(name, default)
        if value not in among:
            raise TraceError(self.line, f"{name}: none of {', '.join(among)}: {value!r}")
        return str(value)

    def end(self) -> None:
        """Nothing else may be there."""
        if self.taken != len(self.row):
            raise TraceError(self.line, f"unknown or doubled field in: {', '.join(self.row)}")

    def _take(self, name: str, default: Any) -> Any:
        if name in self.row:
            self.taken += 1
            return self.row[name]
        if default is None:
            raise TraceError(self.line, f"{name}: missing")
        return default


def write_line(**fields: Any) -> str:
    """One line of a trace, with its end."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
