"""Server-sent events are read right wherever the network cuts them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.client.sse import Message, read_messages

STREAM = (
    ": keep-alive\n\n"
    'id: 1\nevent: job_event\ndata: {"stdout": "ä"}\n\n'
    "data: two\ndata:  lines\n\n"
    "event: nothing\n\n"
    "id: 3\nevent: end\ndata\n\n"
    "id: 4\ndata: cut off"
)
MESSAGES = [
    Message("job_event", '{"stdout": "ä"}', "1"),
    Message("message", "two\n lines", "1"),
    Message("end", "", "3"),
]


@given(cuts=st.lists(st.integers(0, 160)), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_messages_do_not_depend_on_chunks_or_line_ends(cuts: list[int], end: str) -> None:
    raw = STREAM.replace("\n", end).encode()
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    chunks = [raw[a:b] for a, b in pairwise(edges)]
    assert list(read_messages(chunks)) == MESSAGES


def test_a_message_is_given_out_as_soon_as_it_is_complete() -> None:
    def chunks():  # type: ignore[no-untyped-def]
        yield b"data: 1\n\nda"
        raise AssertionError("asked for more before the message was given out")

    assert next(read_messages(chunks())).data == "1"
