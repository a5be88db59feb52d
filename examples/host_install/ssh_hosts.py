"""SSH hosts on this machine: real servers with their own addresses, keys and home directories.

``python ssh_hosts.py DIRECTORY --count 7`` makes and serves them until its standard input ends, so
that they never outlive who started them; ``hosts.json`` in the directory says how to reach them.
What ansible sends is really executed, and files really arrive: only the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import asyncssh

_CHUNK_BYTES = 1 << 16
#: Seconds that output may go on after the command's own end, when a child it left behind holds
#: its pipes; without such a child the pipes end at once.
_OUTPUT_GRACE = 5.0


@dataclass(frozen=True)
class SshHost:
    """How to reach one host.

    Attributes:
        name: its name in the inventory.
        address: a loopback address of its own.
        port: where it listens.
        user: any name; there is no account behind it.
        key_file: private key that it lets in.
        home: directory that its commands run in and see as ``$HOME``.
    """

    name: str
    address: str
    port: int
    user: str
    key_file: str
    home: str

    def inventory_line(self) -> str:
        """The host in an INI inventory, with the Python that runs its modules.

        The temporary directory is said outright: ansible's `~` means the home of an account with
        the user's name, and there is none.
        """
        return (
            f"{self.name} ansible_host={self.address} ansible_port={self.port} "
            f"ansible_user={self.user} ansible_ssh_private_key_file={self.key_file} "
            f"ansible_python_interpreter={sys.executable} "
            f"ansible_remote_tmp={self.home}/.ansible/tmp install_root={self.home}"
        )


def inventory(hosts: list[SshHost], group: str = "greeters") -> str:
    """An INI inventory of these hosts in one group."""
    return f"[{group}]\n" + "".join(f"{host.inventory_line()}\n" for host in hosts)


@contextmanager
def running_hosts(directory: Path, count: int) -> Iterator[list[SshHost]]:
    """Hosts in a child process, ready to be logged into; they end with the block.

    Args:
        directory: theirs; keys and homes in it are used again, so installations survive.
        count: how many.
    """
    child = subprocess.Popen(
        [sys.executable, __file__, str(directory), "--count", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # a Ctrl-C at the terminal is for who started them; they end when their input does
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if not (line := child.stdout.readline()):
            raise RuntimeError(f"the SSH hosts did not start (exit code {child.wait()})")
        yield [SshHost(**fields) for fields in json.loads(line)]
    finally:
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


async def serve(directory: Path, count: int) -> tuple[list[SshHost], list[asyncssh.SSHAcceptor]]:
    """Start the hosts in this event loop; the second list keeps them alive."""
    client_key = _key(directory / "client_key")
    hosts, listeners = [], []
    for number in range(1, count + 1):
        name = f"host{number}"
        home = directory / name / "home"
        home.mkdir(parents=True, exist_ok=True)
        address = f"127.0.0.{10 + number}"
        listener = await asyncssh.listen(
            address,
            0,
            server_host_keys=[_key(directory / name / "host_key")],
            authorized_client_keys=asyncssh.import_authorized_keys(
                client_key.export_public_key().decode()
            ),
            process_factory=_command_runner(home),
            sftp_factory=_sftp_in(home),
            allow_scp=True,
            encoding=None,
            line_editor=False,
        )
        listeners.append(listener)
        hosts.append(
            SshHost(
                name,
                address,
                listener.get_port(),
                "installer",
                str(directory / "client_key"),
                str(home),
            )
        )
    (directory / "hosts.json").write_text(json.dumps([asdict(host) for host in hosts], indent=2))
    return hosts, listeners


def _key(file: Path) -> asyncssh.SSHKey:
    """The private key in this file, made when there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        key = asyncssh.generate_private_key("ssh-ed25519")
        with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as out:
            out.write(key.export_private_key())
    return asyncssh.read_private_key(file)


def _command_runner(home: Path) -> asyncssh.SSHServerProcessFactory[bytes]:
    """What answers `exec` and `shell` requests: a real shell in the host's home directory."""
    environment = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "USER": "installer",
        "LOGNAME": "installer",
    }

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_exec(
            *(["/bin/sh", "-c", process.command] if process.command else ["/bin/sh"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environment,
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        # The output is read to its end before the exit status goes out: with asyncssh's own
        # redirection the last lines were lost now and then.
        feeding = asyncio.create_task(_feed(process.stdin, child.stdin))
        output = asyncio.gather(
            _copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr)
        )
        try:
            code = await child.wait()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(output, _OUTPUT_GRACE)
            if code < 0:
                process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
            else:
                process.exit(code)
        finally:
            feeding.cancel()
            output.cancel()
            if child.returncode is None:  # the connection went away
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGHUP)

    return run


async def _feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncssh.Error):
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
    target.close()


async def _copy(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        with suppress(ConnectionError, asyncssh.Error):  # nobody listens: drain the pipe anyway
            target.write(chunk)
            await target.drain()


def _sftp_in(home: Path) -> type[asyncssh.SFTPServer]:
    class HomeSftp(asyncssh.SFTPServer):
        """Files as the commands see them: relative paths start at the host's home."""

        def map_path(self, path: bytes) -> bytes:
            return os.path.join(os.fsencode(home), path)

    return HomeSftp


async def _main(directory: Path, count: int) -> None:
    hosts, listeners = await serve(directory, count)
    print(json.dumps([asdict(host) for host in hosts]), flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    for listener in listeners:
        listener.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="keys and homes; made when missing")
    parser.add_argument("--count", type=int, default=7, help="number of hosts (default 7)")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    asyncio.run(_main(given.directory.resolve(), given.count))
