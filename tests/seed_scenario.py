"""The scene in which ansible-runner-service lost runs: many plays at once, looked at all the time.

The oldest play is the longest, the old configuration says ``runner_cache_size: 5``, and of three API
processes one is killed while plays run. Every call is counted with its answer; whatever is not as it
should be is kept in words.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx
from sqlalchemy import Engine, text

from dispatcher import settings as settings_module
from dispatcher.db.engine import make_engine
from tests.api_server import as_process
from tests.moved_clock import move_clock
from tests.runner_service import make_root
from tests.stack import RunningStack
from tests.waiting import wait_until

_PLAYBOOK: Final = """\
- hosts: h1
  gather_facts: false
  tasks:
  - name: wait
    ansible.builtin.command: sleep {{ seconds }}
  - name: never
    ansible.builtin.debug: {msg: never}
    when: false
  - name: fail
    ansible.builtin.fail: {msg: on purpose}
    when: fails
  - name: say
    ansible.builtin.debug: {msg: "waited {{ seconds }}"}
"""
FILES: Final = {
    "project/play.yml": _PLAYBOOK,
    "inventory/hosts": "all:\n  children:\n    nodes:\n      hosts:\n        h1:"
    f" {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}\n",
}
#: What the old service was told, and lost runs by.
OLD_SETTINGS: Final = "runner_cache_size: 5\nevent_cache_size: 3\nssh_checks: false\n"
FINAL: Final = ("successful", "failed", "canceled", "timeout")
#: What a status call says at the end: the word, and of ``data`` what depends on how it went.
GOOD: Final = {"ok": 2, "failed": 0, "skipped": 2, "task": "say", "last_task_num": 15}
FAILED: Final = {"ok": 1, "failed": 1, "skipped": 1, "task": "fail", "last_task_num": 12}
#: Every so many plays fail.
_FAILS_EVERY: Final = 5
_POSTS_AT_ONCE: Final = 10
_HOUR: Final = 3600.0


@dataclass(frozen=True)
class Play:
    """One play.

    Attributes:
        seconds: that it waits.
    """

    seconds: int
    fails: bool = False

    def problem(self, word: str, data: dict[str, Any]) -> str | None:
        """What is wrong in the last status of this play's run."""
        expected = FAILED if self.fails else GOOD
        wanted = ("failed" if self.fails else "successful", expected)
        found = (word, {name: data.get(name) for name in expected})
        if found != wanted:
            return f"{found} in place of {wanted}"
        said = {host: e["event_data"]["res"]["msg"] for host, e in data["failures"].items()}
        if said != ({"h1": "on purpose"} if self.fails else {}):
            return f"failures {said}"
        return None


def plays(count: int, *, longest: int) -> list[Play]:
    """So many plays, the oldest the longest."""
    return [
        Play(max(longest >> n, 1) if n < 4 else 0, fails=n % _FAILS_EVERY == _FAILS_EVERY - 1)
        for n in range(count)
    ]


@dataclass
class Tally:
    """What was asked and answered.

    Attributes:
        answers: (call, code, status word) → how often.
        cut: calls that the killed process did not answer.
        words: words of the runs → how often they were read.
        wrong: what was not as it should be.
    """

    answers: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    cut: int = 0
    words: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, call: str, code: int, status: str) -> None:
        with self._lock:
            self.answers[call, code, status] += 1

    def say(self, word: str) -> None:
        with self._lock:
            self.words[word] += 1

    def lose(self) -> None:
        with self._lock:
            self.cut += 1

    def complain(self, problem: str) -> None:
        with self._lock:
            self.wrong.append(problem)


class Process:
    """One API process and a client of it."""

    def __init__(self, url: str, kill: Any = None) -> None:
        self.http = httpx.Client(base_url=f"{url}/api/v1/", timeout=30, trust_env=False)
        self._kill = kill
        self.killed = False

    def kill(self) -> None:
        """SIGKILL."""
        self.killed = True
        self._kill()


@contextmanager
def three_processes(stack: RunningStack, config: Path) -> Iterator[list[Process]]:
    """The stack's own API process and two more; the last one may be killed."""
    with ExitStack() as opened:
        found = [Process(stack.state.api_url)]
        engine = opened.enter_context(engine_of(stack))
        for number in range(2):
            directory = stack.data_dir / f"api-{number}-{len(list(stack.data_dir.iterdir()))}"
            directory.mkdir()
            settings = settings_module.load(
                database_url=stack.state.database_url,
                broker_url=stack.state.broker_url,
                key_file=stack.state.key_file,
                data_dir=directory,
                v1_config=config,
                log_level="error",
            )
            api = opened.enter_context(as_process(settings, engine))
            assert api.process is not None
            found.append(Process(api.url, api.process.kill))
        for process in found:
            opened.callback(process.http.close)
        yield found


@contextmanager
def engine_of(stack: RunningStack) -> Iterator[Engine]:
    """A pool on the stack's database."""
    settings = settings_module.load(database_url=stack.state.database_url)
    engine = make_engine(settings, application_name="seed scenario", pool_size=4)
    try:
        yield engine
    finally:
        engine.dispose()


def make_seed_root(path: Path) -> Path:
    """The root directory; the path of the old configuration."""
    root = make_root(path, FILES)
    config = root / "config.yaml"
    config.write_text(f"{OLD_SETTINGS}playbooks_root_dir: {root}\n")
    return config


class Scenario:
    """One run of the scene.

    Args:
        processes: API processes; the last one is killed.
        pause: seconds between two calls of one watcher, of which there is one for each process.
    """

    def __init__(self, processes: Sequence[Process], given: Sequence[Play], *, pause: float):
        self.tally = Tally()
        self._processes = processes
        self._plays = given
        self._pause = pause
        self._runs: dict[str, Play] = {}
        self._ended: dict[str, str] = {}
        self._stopping = threading.Event()

    def play(self, *, timeout: float) -> float:
        """From the posts to the last end, watched; seconds that it took."""
        began = monotonic()
        watchers = [threading.Thread(target=self._watch, args=(p,)) for p in self._processes]
        for watcher in watchers:
            watcher.start()
        try:
            with ThreadPoolExecutor(_POSTS_AT_ONCE) as pool:
                list(pool.map(self._post, self._plays, itertools.cycle(self._processes)))
            wait_until(lambda: self._ended or self.tally.wrong, timeout=timeout, what="one ended")
            self._processes[-1].kill()
            wait_until(self._is_over, timeout=timeout, what="all have ended")
            took = monotonic() - began
        finally:
            self._stopping.set()
            for watcher in watchers:
                watcher.join()
        if len(self._runs) != len(self._plays):
            self.tally.complain(f"{len(self._runs)} runs of {len(self._plays)} plays")
        return took

    def check_all(self, when: str) -> int:
        """Compare every summary, at the processes that live in turn; how many runs are exact."""
        exact = 0
        living = itertools.cycle(p for p in self._processes if not p.killed)
        for (uuid, play), process in zip(self._runs.items(), living, strict=False):
            problem = self._problem(process, uuid, play)
            if problem is None:
                exact += 1
            else:
                self.tally.complain(f"{when}: {uuid}: {problem}")
        return exact

    def _is_over(self) -> bool:
        return bool(self.tally.wrong) or len(self._ended) == len(self._plays)

    def _post(self, play: Play, process: Process) -> None:
        body = {"seconds": play.seconds, "fails": play.fails}
        answer = process.http.post("playbooks/play.yml", json=body)
        found = self._read("POST playbooks/<name>", answer, 202, "STARTED")
        if found is not None:
            self._runs[str(found[1]["play_uuid"])] = play

    def _watch(self, process: Process) -> None:
        try:
            while not self._stopping.wait(self._pause):
                for uuid in list(self._runs):
                    process = self._look(process, uuid)
                    if self._stopping.wait(self._pause):
                        return
        except Exception as error:
            self.tally.complain(f"a watcher ended: {error!r}")

    def _look(self, process: Process, uuid: str) -> Process:
        """Status and events of a run; the process to be asked next."""
        try:
            self._look_at(process, uuid)
        except httpx.TransportError as error:
            if not process.killed:
                self.tally.complain(f"not answered: {error!r}")
            self.tally.lose()
            process = self._processes[0]
            self._look_at(process, uuid)
        return process

    def _look_at(self, process: Process, uuid: str) -> None:
        answer = process.http.get(f"playbooks/{uuid}")
        found = self._read("GET playbooks/<uuid>", answer, 200, "OK")
        if found is None:
            return
        word, data = found
        self.tally.say(word)
        before = self._ended.get(uuid)
        if word not in ("running", *FINAL) or before not in (None, word):
            self.tally.complain(f"{uuid}: {word!r} after {before!r}")
        events = self._events(process, uuid)
        if events is not None and events < (data["last_task_num"] or 0):
            self.tally.complain(f"{uuid}: {events} events after {data['last_task_num']}")
        if word in FINAL:
            self._ended[uuid] = word

    def _events(self, process: Process, uuid: str) -> int | None:
        """How many events there are, which have the counters 1 to that."""
        answer = process.http.get(f"jobs/{uuid}/events")
        found = self._read("GET jobs/<uuid>/events", answer, 200, "OK")
        if found is None:
            return None
        counters = [int(key.partition("-")[0]) for key in found[1]["events"]]
        total: int = found[1]["total_events"]
        if counters != list(range(1, total + 1)):
            self.tally.complain(f"{uuid}: {total} events with the counters {counters}")
        return total

    def _problem(self, process: Process, uuid: str, play: Play) -> str | None:
        answer = process.http.get(f"playbooks/{uuid}")
        found = self._read("GET playbooks/<uuid>", answer, 200, "OK")
        if found is None:
            return "not answered"
        events = self._events(process, uuid)
        if events != found[1]["last_task_num"]:
            return f"{events} events, last_task_num {found[1]['last_task_num']}"
        return play.problem(*found)

    def _read(
        self, call: str, answer: httpx.Response, code: int, status: str
    ) -> tuple[str, dict[str, Any]] | None:
        """Message and data of an answer; None, and a complaint, if it is not the one that is right."""
        try:
            body = answer.json()
            given = (answer.status_code, str(body["status"]))
            found = (str(body["msg"]), body["data"])
        except (json.JSONDecodeError, KeyError, TypeError):
            given, found = (answer.status_code, answer.text[:80]), ("", {})
        self.tally.count(call, *given)
        if given == (code, status):
            return found
        self.tally.complain(f"{call}: {given} {found[0]}")
        return None


def exact_summaries(scenario: Scenario, engine: Engine) -> dict[str, int]:
    """How many summaries are exact when all have ended, and an hour of the moved clock later."""
    found = {"at the end": scenario.check_all("at the end")}
    move_clock_on(engine, _HOUR)
    try:
        found["an hour later"] = scenario.check_all("an hour later")
    finally:
        move_clock_on(engine, 0)
    return found


def move_clock_on(engine: Engine, seconds: float) -> None:
    """Move the database's clock, and wait until every manager has worked by it."""
    move_clock(engine, seconds)
    with engine.connect() as connection:
        moved = connection.scalar(text("SELECT dispatcher_now()"))

    def passed() -> bool:
        with engine.connect() as connection:
            late = text("SELECT count(*) FROM manager_lease WHERE last_pass_at <= :moved")
            return connection.scalar(late, {"moved": moved}) == 0

    wait_until(passed, timeout=60, what="every manager has passed since the clock was moved")
