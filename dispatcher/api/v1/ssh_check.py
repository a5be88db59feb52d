"""Whether a host can be logged into: its name, its port, its SSH server, our key; each with its words."""

from __future__ import annotations

import socket
import subprocess
from typing import Final

from dispatcher import logs
from dispatcher.api.v1.envelope import Refused
from dispatcher.api.v1.options import Options
from dispatcher.api.v1.root_directory import RootDirectory

log = logs.get(__name__)

#: What ssh exits with when it is ssh that failed, not the command.
_SSH_FAILED: Final = 255


def check_host(options: Options, host: str, port: int, root: RootDirectory) -> None:
    """Log into a host, unless such checks are switched off.

    Args:
        port: where its SSH server listens.

    Raises:
        Refused: what stands in the way.
    """
    if not options.ssh_checks:
        return
    if not options.ssh_key.exists():
        words = "SSH key(s) missing from ansible-runner-service"
        raise Refused("FAILED", words, {"hostname": host})
    _connect(options, host, port)
    _log_in(options, host, port, root)


def _connect(options: Options, host: str, port: int) -> None:
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        words = f"SSH error - '{host}' not found; check DNS or /etc/hosts"
        raise Refused("NOCONN", words, {"hostname": host}) from None
    try:
        with socket.create_connection((host, port), timeout=options.ssh_timeout):
            pass
    except TimeoutError:
        raise _timeout(host) from None
    except OSError:
        raise _not_contactable(host, port) from None


def _log_in(options: Options, host: str, port: int, root: RootDirectory) -> None:
    target = ["-l", options.target_user] if options.target_user else []
    command = [
        "ssh",
        *target,
        *("-p", str(port), "-i", str(options.ssh_key)),
        *("-F", "none"),
        *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "PasswordAuthentication=no"),
        # the runs keep and check the hosts' keys; this only asks whether ours is let in
        *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
        *("-o", "LogLevel=ERROR"),
        *("--", host, "true"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=options.ssh_timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _timeout(host) from None
    if done.returncode != _SSH_FAILED:
        return
    reason = done.stderr.decode(errors="replace").lower()
    log.info("ssh_check_failed", host=host, port=port, reason=reason.strip()[-200:])
    if "permission denied" in reason or "authentication" in reason:
        words = f"SSH auth error - passwordless ssh not configured for '{host}'"
        raise Refused("NOAUTH", words, {"pub_key": root.public_key()})
    if "timed out" in reason:
        raise _timeout(host)
    raise _not_contactable(host, port)


def _timeout(host: str) -> Refused:
    return Refused("TIMEOUT", f"SSH timeout waiting for response from '{host}'", {"hostname": host})


def _not_contactable(host: str, port: int) -> Refused:
    return Refused(
        "NOCONN",
        f"SSH target '{host}' not contactable; host offline, port {port} blocked, sshd running?",
        {"hostname": host},
    )
