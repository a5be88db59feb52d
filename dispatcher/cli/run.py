"""``dispatcher run``: a playbook of this directory, on the cluster, as if it ran here."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from dispatcher import settings as settings_module
from dispatcher.cli import output
from dispatcher.cli import run_options as options
from dispatcher.cli.attached import stay_with
from dispatcher.cli.exit_codes import DETACHED
from dispatcher.cli.inventories import choose_inventory
from dispatcher.cli.server import connect
from dispatcher.cli.variables import read_extra_vars, read_secret_vars
from dispatcher.client.answers import Job
from dispatcher.client.client import Client
from dispatcher.client.ignore import IGNORE_FILE
from dispatcher.client.pack import Bundle, pack
from dispatcher.client.submission import submit
from dispatcher.domain.launch import RunRequest
from dispatcher.errors import InvalidRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    playbook: options.Playbook,
    inventory: options.Inventory = None,
    limit: options.Limit = "",
    extra_vars: options.ExtraVars = None,
    tags: options.Tags = None,
    skip_tags: options.SkipTags = None,
    check: options.Check = False,
    diff: options.Diff = False,
    forks: options.Forks = 0,
    verbose: options.Verbose = 0,
    secret_var: options.SecretVar = None,
    credential: options.Credential = None,
    directory: options.Directory = None,
    name: options.Name = "",
    priority: options.Priority = 0,
    instance_group: options.InstanceGroup = None,
    timeout: options.Timeout = 0,
    idle_timeout: options.IdleTimeout = 0,
    allow_no_hosts: options.AllowNoHosts = False,
    max_unreachable: options.MaxUnreachable = "0",
    max_failed: options.MaxFailed = "0",
    host_lock: options.HostLockOption = options.HostLock.NONE,
    host_key_policy: options.HostKeyPolicyOption = options.HostKeyPolicy.ACCEPT_NEW,
    idempotency_key: options.IdempotencyKey = None,
    detach: options.Detach = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a playbook on the cluster, follow its log, and exit with the job's code.

    Uses the server of DISPATCHER_URL and DISPATCHER_TOKEN; without them the embedded stack, which
    is started when it does not run yet. Ctrl-C cancels the job and waits for its end; a second one
    detaches.
    """
    request = RunRequest(
        playbook="",
        bundle_digest="",
        name=name,
        limit=limit,
        extra_vars=read_extra_vars(extra_vars or ()),
        # the variables that the caller names, not settings of ours
        secret_vars=read_secret_vars(secret_var or (), os.environ),
        tags=split_tags(tags),
        skip_tags=split_tags(skip_tags),
        check_mode=check,
        diff_mode=diff,
        forks=forks,
        verbosity=min(verbose, 5),
        timeout=timeout,
        idle_timeout=idle_timeout,
        allow_no_hosts=allow_no_hosts,
        max_unreachable=max_unreachable,
        max_failed=max_failed,
        host_lock=host_lock,
        host_key_policy=host_key_policy,
        priority=priority,
        instance_groups=tuple(instance_group or ()),
    )
    settings = settings_module.load()
    root = directory or playbook.parent
    with pack(root, unpacked_limit=settings.max_bundle_unpacked_bytes) as bundle:
        request = place(request, playbook, root, bundle, inventory or ())
        with connect(settings, may_start=True) as client:
            numbers = tuple(client.credential_number(each) for each in credential or ())
            request = replace(request, credentials=numbers)
            key = idempotency_key or str(uuid.uuid4())
            job = _launch(client, request, bundle, key)
            if detach:
                _print_accepted(job, as_json)
                return
            code = stay_with(client, job.id, as_json=as_json, cancel_on_interrupt=True)
    raise typer.Exit(code)


def split_tags(given: Sequence[str] | None) -> tuple[str, ...]:
    """Tags as they were given: commas and repetition alike."""
    return tuple(tag.strip() for item in given or () for tag in item.split(",") if tag.strip())


def place(
    request: RunRequest, playbook: Path, root: Path, bundle: Bundle, inventory: Sequence[str]
) -> RunRequest:
    """The request with what depends on the packed directory.

    Raises:
        InvalidRequest: the playbook is not in the bundle, or the inventory cannot be sent.
    """
    if not playbook.is_file():
        raise InvalidRequest({"playbook": f"{playbook}: no such file"})
    inside = os.path.relpath(os.path.abspath(playbook), os.path.abspath(root))
    if inside not in bundle.names:
        where = (
            IGNORE_FILE
            if (root / inside).exists() and ".." not in inside
            else f"{root}: not below it"
        )
        raise InvalidRequest({"playbook": f"{playbook}: is kept out of the bundle ({where})"})
    choice = choose_inventory(inventory, root, bundle.names)
    if choice.warning:
        output.say(choice.warning)
    return replace(
        request,
        playbook=inside,
        bundle_digest=bundle.digest,
        inventory=choice.text,
        inventory_path=choice.path,
    )


def _launch(client: Client, request: RunRequest, bundle: Bundle, key: str) -> Job:
    def tell(bundle: Bundle) -> None:
        output.say(f"uploading {bundle.size:,} bytes")

    try:
        job, created = submit(client, request, bundle, idempotency_key=key, on_upload=tell)
    except KeyboardInterrupt:
        output.say(
            "interrupted while submitting; whether the job was accepted is not known: the same"
            f" command with --idempotency-key {key} finds or makes it"
        )
        raise typer.Exit(DETACHED) from None
    output.say(f"job {job.id} {'accepted' if created else 'was accepted before'}")
    return job


def _print_accepted(job: Job, as_json: bool) -> None:
    if as_json:
        output.print_json(job.raw)
    else:
        print(job.id)
