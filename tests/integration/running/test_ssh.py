"""Over SSH: host keys are never asked about, and connections do not outlive their run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from tests.runs import Run, Runs


class SshHost:
    """An SSH server on a free loopback port that runs commands of this account."""

    def __init__(self, directory: Path) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        self.key_file = directory / "key"
        key.write_private_key(str(self.key_file))
        self.key_file.chmod(0o600)
        self._authorized = directory / "authorized"
        key.write_public_key(str(self._authorized))
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.listen()

    def listen(self) -> None:
        """Serve, with a host key that nobody has seen."""

        async def serve() -> asyncssh.SSHAcceptor:
            return await asyncssh.listen(
                "127.0.0.1",
                self.port,
                server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
                authorized_client_keys=str(self._authorized),
                process_factory=self._run,
                sftp_factory=True,
                encoding=None,
            )

        self._acceptor = asyncio.run_coroutine_threadsafe(serve(), self.loop).result()
        self.port = self._acceptor.get_port()

    def change_key(self) -> None:
        async def stop() -> None:
            self._acceptor.close()
            await self._acceptor.wait_closed()

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result()
        self.listen()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    @staticmethod
    async def _run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        local = await asyncio.create_subprocess_shell(
            process.command or "true",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await local.communicate()
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(local.returncode or 0)

    @property
    def inventory(self) -> str:
        return (
            f"far ansible_host=127.0.0.1 ansible_port={self.port} ansible_ssh_private_key_file="
            f"{self.key_file} ansible_python_interpreter={sys.executable}\n"
        )


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    made = SshHost(tmp_path_factory.mktemp("ssh"))
    yield made
    made.close()


def test_host_keys_follow_the_policy_and_masters_are_closed(
    runs: Runs, host: SshHost, tmp_path: Path
) -> None:
    known = tmp_path / "known hosts"

    def run(policy: str, tasks: str = "- raw: 'true'\n") -> Run:
        return runs.start(
            tasks, inventory=host.inventory, known_hosts=str(known), host_key_policy=policy
        )

    unknown = run("strict")
    assert unknown.decided().outcome == "unreachable"
    assert not known.exists()

    new = run("accept-new", "- ping:\n- raw: 'true'\n")
    assert new.decided().outcome == "successful", new.stdout()
    assert "ssh-ed25519" in known.read_text()
    assert new.processes() == []
    assert new.wait().evidence.killed == 0
    assert not new.run_dir.control.exists()

    assert run("strict").decided().outcome == "successful"
    host.change_key()
    changed = run("accept-new")
    assert changed.decided().outcome == "unreachable"
    assert "Host key verification failed" in changed.stdout()
