"""The TaskManager's rules, broken one by one: blocking, locks, limits, room, order, turns."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, of_planner

TASK_MUTANTS: list[Mutant] = [
    *of_planner(
        "exclusions",
        (
            "project update blocks another update of the project",
            'Kind.PROJECT_UPDATE: lambda job: (("project", job.project_id),),',
            "Kind.PROJECT_UPDATE: lambda job: (),",
        ),
        (
            "project update blocks playbook jobs of the project",
            'Kind.PLAYBOOK: lambda job: (\n        ("project", job.project_id),',
            "Kind.PLAYBOOK: lambda job: (",
        ),
        (
            "a running playbook does not block updates of its project",
            '(("template", job.job_template_id),) if alone else (),',
            '(("template", job.job_template_id if alone else None), ("project", job.project_id)),',
        ),
        (
            "inventory update blocks another update of the source",
            'Kind.INVENTORY_UPDATE: lambda job: (("source", job.inventory_source_id),),',
            "Kind.INVENTORY_UPDATE: lambda job: (),",
        ),
        (
            "inventory update blocks playbook jobs on the inventory",
            '        ("inventory", job.inventory_id),\n        ("template"',
            '        ("template"',
        ),
        (
            "playbook job that runs alone blocks jobs of its template",
            '        ("template", job.job_template_id),\n',
            "",
        ),
        (
            "playbook job that may run beside others blocks none",
            '(("template", job.job_template_id),) if alone else ()',
            '(("template", job.job_template_id),)',
        ),
        (
            "workflow job that runs alone blocks workflows of its template",
            '        ("workflow template", job.workflow_job_template_id),\n',
            "",
        ),
        (
            "workflow job that may run beside others blocks none",
            '("workflow template", job.workflow_job_template_id if alone else None)',
            '("workflow template", job.workflow_job_template_id)',
        ),
        (
            "workflow of slices blocks another of its template",
            '        ("slices of template", job.job_template_id),\n',
            "",
        ),
        (
            "clean-up job blocks clean-up jobs",
            'Kind.CLEANUP: lambda job: (("kind", Kind.CLEANUP),),',
            "Kind.CLEANUP: lambda job: (),",
        ),
        (
            "an old job is not overtaken by later holders of what it waits for",
            "if holders or claim < place:",
            "if holders:",
        ),
    ),
    *of_planner(
        "locks",
        (
            "exclusive lock blocks any lock on its hosts",
            "holders = [self.exclusive[key]] if key in self.exclusive else []",
            "holders: list[int] = []",
        ),
        (
            "shared lock blocks exclusive locks on its hosts",
            "holders += self.shared.get(key, ())",
            "pass",
        ),
        (
            "shared locks overlap freely",
            'if mode == "exclusive":\n                holders',
            "if True:\n                holders",
        ),
        (
            "locks of a job stopped by force are kept",
            "cooling = [self.cooling[key]] if key in self.cooling else []",
            "cooling: list[int] = []",
        ),
        (
            "an old job is not overtaken on its locks",
            "ahead = [claim[-1] for claim in claims if claim < place]",
            "ahead: list[int] = []",
        ),
    ),
    *of_planner(
        "blocking",
        ("a failed dependency fails its job", "    if ended:", "    if False:"),
        (
            "a canceled dependency fails its job",
            "FINAL - {Status.SUCCESSFUL}]",
            "FINAL - {Status.SUCCESSFUL, Status.CANCELED}]",
        ),
        ("an unfinished dependency blocks its job", "    if unfinished:", "    if False:"),
    ),
    *of_planner(
        "limits",
        (
            "limit of a tenant",
            "if job.organization_id in self.tenants and job.kind in NODE_KINDS:",
            "if False:",
        ),
        (
            "workflow jobs count for no tenant",
            " in self.tenants and job.kind in NODE_KINDS:",
            " in self.tenants:",
        ),
        (
            "limit of a template",
            "if job.job_template_id in self.templates and job.kind is Kind.PLAYBOOK:",
            "if False:",
        ),
        (
            "a limit is reached, never exceeded",
            "if used + (kept is not None) < self.allowed:",
            "if used + (kept is not None) <= self.allowed:",
        ),
        (
            "an old job keeps its place in a limit",
            "if used + (kept is not None) < self.allowed:",
            "if used < self.allowed:",
        ),
        ("pause of everything", "if self.whole is not None:", "if False:"),
        ("pause of a tenant", "if paused is None:", "if True:"),
        (
            "pause of a group",
            'return None if paused is None else _paused("group", name, paused)',
            "return None",
        ),
    ),
    *of_planner(
        "placement",
        (
            "max_concurrent_jobs of a group",
            '("max_concurrent_jobs", limits.max_concurrent_jobs, group.jobs, 1, jobs)',
            '("max_concurrent_jobs", 0, group.jobs, 1, jobs)',
        ),
        (
            "max_forks of a group",
            '("max_forks", limits.max_forks, group.forks, job.forks, forks)',
            '("max_forks", 0, group.forks, job.forks, forks)',
        ),
        ("capacity of a node", "if node.remaining >= impact]", "if node.remaining >= impact - 1]"),
        (
            "max_jobs of a node",
            "if heap[0] == node.entry() and not node.is_full and",
            "if heap[0] == node.entry() and",
        ),
        ("an oversized job runs alone", "if node.jobs == 0 and not node.is_full:", "if True:"),
        (
            "a node is kept for an old job",
            "ledger.keep(to_keep.id, place)",
            "pass",
        ),
        (
            "a job before the one that a node is kept for may take it",
            "return not ledger.kept or all(",
            "return True or all(",
        ),
        (
            "a job that lacks a limit keeps no node",
            "if node and _limit_refusing",
            "if _limit_refusing",
        ),
        (
            "a paused group keeps nothing",
            "if group.group.id in ledger.pauses.groups:",
            "if False:",
        ),
    ),
    *of_planner(
        "capacity",
        (
            "the most remaining capacity first",
            "return (-self.remaining, ",
            "return (self.remaining, ",
        ),
        (
            "nodes go by name",
            "return (-self.remaining, self.name, self.id)",
            'return (-self.remaining, "", self.id)',
        ),
        (
            "the pass's starts count as use of their tenant",
            "        self.turns.charge(job, job.task_impact)\n",
            "",
        ),
        (
            "a begun workflow holds its template",
            "        self.exclusions.hold(job)\n\n",
            "        pass\n\n",
        ),
        (
            "old jobs are those that were held as long as reserve_after",
            "self.now - job.held_since >= self.reserve_after",
            "self.now - job.held_since > self.reserve_after",
        ),
        (
            "age counts from being held, not from rank",
            "job.held_since is not None and self.now - job.held_since >= self.reserve_after",
            "self.now - job.rank >= self.reserve_after",
        ),
        (
            "locks are kept a while after a forced stop, and no longer",
            "if ended.until > ledger.now:",
            "if True:",
        ),
    ),
    *of_planner(
        "fairness",
        ("order: virtual time", "return (time, job.rank,", "return (0.0, job.rank,"),
        ("order: rank within a tenant", "return (job.rank, job.id)\n", "return (0.0, job.id)\n"),
        (
            "order: id within a tenant",
            "return (job.rank, job.id)\n",
            "return (job.rank, -job.id)\n",
        ),
        (
            "order: rank among tenants that use the same",
            "return (time, job.rank, job.id,",
            "return (time, 0.0, job.id,",
        ),
        (
            "order: id among tenants that use the same",
            "return (time, job.rank, job.id,",
            "return (time, job.rank, -job.id,",
        ),
        ("weights of tenants", "return used / self.weight", "return used / 1.0"),
        (
            "what ended lately counts",
            "            lately = round(usage.impact * UNIT)",
            "            lately = 0",
        ),
        ("overtakers are not charged", "if minute < self.newest:", "if False:"),
        (
            "a place is put behind other tenants' jobs that had their turn",
            "if place < before else place",
            "if False else place",
        ),
        (
            "a job that kept its turn keeps its place",
            "        if kept is not None:\n            return kept\n",
            "",
        ),
    ),
    *of_planner(
        "plan_tasks",
        ("a start limit ends the pass", "        ledger.stopped_early = True\n", ""),
        (
            "young jobs may be overtaken",
            "    if not ledger.waited_long(job):\n        return\n",
            "",
        ),
        (
            "one job's exception stops nobody",
            "except Exception as error:",
            "except KeyboardInterrupt as error:",
        ),
    ),
]
