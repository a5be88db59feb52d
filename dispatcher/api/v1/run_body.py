"""What ``POST runs`` takes, which the old service had no words for."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dispatcher.api.v1.call import Call
from dispatcher.api.v1.envelope import Refused
from dispatcher.api.v1.root_directory import NAME
from dispatcher.api.v1.starting import connection_of
from dispatcher.db.run_list import credentials_named
from dispatcher.domain.runner_inventory import with_connection
from dispatcher.domain.text import has_unstorable


class RunBody(BaseModel):
    """A run as a caller asks for it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    playbook: str = Field(description="One of `project/*.yml`.")
    extra_vars: dict[str, Any] = Field(default_factory=dict, description="Extra variables.")
    limit: str = Field("", description="Host pattern: groups, `a:!b`, globs.")
    tags: list[str] = Field(default_factory=list, description="Only tasks with these tags.")
    skip_tags: list[str] = Field(default_factory=list, description="No tasks with these tags.")
    check: bool = Field(False, description="Change nothing, only say what would change.")
    forks: int = Field(0, description="Hosts worked on at once; 0: Ansible's default (5).")
    verbosity: int = Field(0, description="0 to 5.")
    timeout: int = Field(0, description="Seconds after which the run is stopped; 0: never.")
    inventory: str | None = Field(
        None, description="A file of `inventories/`; by default `inventory/hosts`."
    )
    hosts: list[str] | None = Field(
        None, description="These hosts are the inventory, whatever the files say."
    )
    credentials: list[str] = Field(
        default_factory=list,
        description="Names of credentials of the organization `runner-service`, in place of `env/ssh_key`.",
    )


def read_body(call: Call) -> dict[str, Any]:
    """The fields of the run that is asked for.

    Raises:
        Refused: a field is unknown or wrong, or what it names is not there.
    """
    given = call.json()
    try:
        body = RunBody.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise Refused("INVALID", f"{field}: {first['msg']}") from None
    if not call.root.has_playbook(body.playbook):
        raise Refused("NOTFOUND", "playbook file not found")
    # a credential says how hosts are reached
    variables = {} if body.credentials else connection_of(call)
    return {
        "playbook": body.playbook,
        "inventory": with_connection(_inventory(call, body), variables),
        "limit": body.limit,
        "extra_vars": body.extra_vars,
        "tags": tuple(body.tags),
        "skip_tags": tuple(body.skip_tags),
        "check_mode": body.check,
        "forks": body.forks,
        "verbosity": body.verbosity,
        "timeout": body.timeout,
        "credentials": _credentials(call, body.credentials),
    }


def _inventory(call: Call, body: RunBody) -> str:
    """Its text."""
    if body.hosts is None and body.inventory is None:
        return call.root.inventory()
    if body.hosts is None:
        text = call.root.other_inventory(str(body.inventory))
        if text is None:
            raise Refused("NOTFOUND", "inventory file not found")
        return text
    if body.inventory is not None:
        raise Refused("INVALID", "hosts: given beside inventory")
    for host in body.hosts:
        if not NAME.fullmatch(host):
            raise Refused("INVALID", f"hosts: {host[:100]!r} is not a valid name")
    return yaml.safe_dump({"all": {"hosts": dict.fromkeys(body.hosts)}})


def _credentials(call: Call, names: list[str]) -> tuple[int, ...]:
    wanted = [name for name in names if not has_unstorable(name)]
    with call.caller.reading() as connection:
        found = credentials_named(connection, wanted)
    for name in names:
        if name not in found:
            raise Refused("INVALID", f"credentials: there is no {name[:100]!r}")
    return tuple(found[name] for name in names)
