"""A job's log, live and complete: by the event stream while it holds, by reading otherwise.

The same round is made again and again: read the status, then every event after the last one known,
then listen to the stream until it ends or breaks. Because the status is read before the events, a
final status means that what was read after it is all there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import requests
import urllib3

from dispatcher import clock
from dispatcher.client.answers import Job, JobEvent
from dispatcher.client.client import Client
from dispatcher.client.errors import ServerUnreachable, UnexpectedAnswer
from dispatcher.client.sse import read_messages

#: Type of the stream's messages that carry an event; all others say that the job has moved.
EVENT_MESSAGE = "job_event"
#: Seconds of silence after which a stream counts as broken; the server's keep-alives come sooner.
_SILENCE = 45.0
#: Seconds between two rounds while streams break or are not to be had.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)


@dataclass(frozen=True)
class Interruption:
    """The stream broke; what comes next continues without a gap.

    Attributes:
        reason: in words.
    """

    reason: str


Update = Job | JobEvent | Interruption


def follow(client: Client, job_id: int, *, after: int = 0) -> Iterator[Update]:
    """Everything that happens to a job until it has ended; the last update is the final job.

    A job that was lost with its node and is repeated is followed by its retry: the updates go on
    with that job, whose events begin at 1 again.

    Args:
        client: its patience decides how long a server that is away is waited for.
        after: counter of the last event known; 0: from the start.

    Raises:
        NotFound: no such job.
        ServerUnreachable, Unavailable, NotAllowed, UnexpectedAnswer: patience is at its end.
    """
    last = after
    pause = _FIRST_PAUSE
    while True:
        job = client.job(job_id)
        while events := client.events(job_id, after=last):
            yield from events
            last = events[-1].counter
        yield job
        if job.final:
            if job.retried_by is None:
                return
            job_id, last, pause = job.retried_by, 0, _FIRST_PAUSE
            continue
        listened = last
        try:
            for update in _listen(client, job, after=last):
                yield update
                if isinstance(update, JobEvent):
                    last = update.counter
        except (ServerUnreachable, UnexpectedAnswer) as error:
            yield Interruption(str(error))
        # a stream that brings something is opened again at once, one that brings nothing is not
        pause = _FIRST_PAUSE if last > listened else min(2 * pause, _LONGEST_PAUSE)
        if last == listened:
            clock.sleep(pause)


def _listen(client: Client, job: Job, *, after: int) -> Iterator[Job | JobEvent]:
    """What the stream brings, in order and without gaps, until the server ends it.

    Raises:
        ServerUnreachable, UnexpectedAnswer: it broke, or there is none.
    """
    known = job
    last = after
    answer = client.open_stream(job.id, after=after, read_timeout=_SILENCE)
    with answer:
        try:
            for message in read_messages(answer.iter_content(chunk_size=None)):
                if message.event == EVENT_MESSAGE:
                    event = JobEvent.of(json.loads(message.data))
                    if event.counter > last + 1:
                        return  # the next round reads what is missing
                    if event.counter == last + 1:
                        last = event.counter
                        yield event
                else:
                    job = client.job(job.id)
                    if job.final:
                        return
                    if job.state != known.state:
                        known = job
                        yield job
        except _BROKEN as error:
            raise ServerUnreachable(
                f"the event stream broke off: {type(error).__name__}"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise UnexpectedAnswer(f"the event stream cannot be read: {error}", code=200) from error
