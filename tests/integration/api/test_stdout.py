"""``jobs/N/stdout/``: every format, every range, hostile output, outputs larger than memory."""

from __future__ import annotations

import json
import resource
from itertools import pairwise
from typing import Any

import pytest

from tests.factories import add_events, make_job, make_node
from tests.integration.api.conftest import Shared
from tests.waiting import wait_until

#: Texts of events: several lines, none, one empty line, colors over events, hostile content.
TEXTS = (
    "PLAY [all] *****",
    "",
    "\x1b[0;32mok: [web1]\x1b[0m\nsecond\n\nfourth",
    "\x1b[0;31mfatal: [<script>alert(1)</script>]\x1b[0m: \"ü\" & 'x'",
    "\x1b]0;title\x07\x1b[2Jcleared",
    "last",
)
PLAIN = (
    "PLAY [all] *****\nok: [web1]\nsecond\n\nfourth\n"
    "fatal: [<script>alert(1)</script>]: \"ü\" & 'x'\ncleared\nlast\n"
)
LINES = PLAIN.splitlines(keepends=True)


@pytest.fixture(scope="module")
def job(shared: Shared) -> int:
    with shared.engine.begin() as connection:
        make_node(connection)
        job_id = make_job(connection, status="running")
        add_events(connection, job_id, TEXTS)
    return job_id


def _get(shared: Shared, job: int, **parameters: Any) -> Any:
    answer = shared.api.http.get(f"/api/v2/jobs/{job}/stdout/", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer


def test_text_has_neither_colors_nor_other_sequences(shared: Shared, job: int) -> None:
    answer = _get(shared, job, format="txt")
    assert answer.text == PLAIN
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "content-disposition" not in answer.headers


def test_ansi_keeps_colors_only(shared: Shared, job: int) -> None:
    text = _get(shared, job, format="ansi").text
    assert "\x1b[0;32mok: [web1]\x1b[0m\n" in text
    assert "\x1b[2J" not in text
    assert "title" not in text


@pytest.mark.parametrize(("format", "like"), [("txt_download", "txt"), ("ansi_download", "ansi")])
def test_a_download_is_the_same_as_a_file(shared: Shared, job: int, format: str, like: str) -> None:
    answer = _get(shared, job, format=format)
    assert answer.headers["content-disposition"] == f'attachment; filename="job_{job}.txt"'
    assert answer.content == _get(shared, job, format=like).content


def test_html_is_a_page_in_which_output_can_do_nothing(shared: Shared, job: int) -> None:
    answer = _get(shared, job, format="html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert '<span class="ansi-fg2">ok: [web1]</span>' in answer.text


def test_json_has_the_range_and_its_lines(shared: Shared, job: int) -> None:
    whole = _get(shared, job, format="json", content_format="txt").json()
    assert whole == {"range": {"start": 0, "end": 8, "absolute_end": 8}, "content": PLAIN}
    colored = _get(shared, job, format="json", start_line=1, end_line=2).json()
    assert colored["content"] == "\x1b[0;32mok: [web1]\x1b[0m\n"
    page = _get(shared, job, format="json", content_format="html", start_line=5, end_line=6).json()
    assert page["content"].startswith('<span class="ansi-fg1">fatal')


def test_every_range_of_lines_is_cut_exactly(shared: Shared, job: int) -> None:
    for start in range(len(LINES) + 2):
        for end in range(start, len(LINES) + 3):
            body = _get(
                shared, job, format="json", content_format="txt", start_line=start, end_line=end
            ).json()
            assert body["content"] == "".join(LINES[start:end]), (start, end)
            assert body["range"]["absolute_end"] == len(LINES)
    assert _get(shared, job, format="txt", start_line=6).text == "".join(LINES[6:])


def test_a_last_line_without_its_end_is_shown(shared: Shared) -> None:
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running")
        add_events(connection, job_id, ["one"])
        add_events(connection, job_id, ["cut off"], end_line=1)
    assert _get(shared, job_id).text == "one\ncut off"
    assert _get(shared, job_id, start_line=1).text == "cut off"
    assert _get(shared, job_id, end_line=1).text == "one\n"


def test_the_format_is_negotiated_when_none_is_named(shared: Shared, job: int) -> None:
    path = f"/api/v2/jobs/{job}/stdout/"
    kinds = {
        "*/*": "text/plain",
        "text/plain": "text/plain",
        "application/json": "application/json",
        "text/html,application/xhtml+xml,*/*;q=0.8": "text/html",
    }
    for accept, kind in kinds.items():
        answer = shared.api.http.get(path, headers={"Accept": accept})
        assert answer.headers["content-type"].split(";")[0] == kind


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "pdf"),
        ("content_format", "pdf"),
        ("start_line", "x"),
        ("start_line", "-1"),
        ("end_line", "9" * 40),
        ("lines", "1"),
    ],
)
def test_an_unknown_format_or_range_is_400(shared: Shared, job: int, name: str, value: str) -> None:
    answer = shared.api.http.get(f"/api/v2/jobs/{job}/stdout/", params={name: value})
    assert answer.status_code == 400
    assert list(answer.json()) == [name]


def test_hostile_names_of_hosts_are_harmless_in_every_format(shared: Shared) -> None:
    names = (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "a\u202eb",
        "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
        "</pre><h1>",
        "&amp;",
        "{{ 7*7 }}",
    )
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running", name=names[0])
        for name in names:
            add_events(connection, job_id, [f"ok: [{name}]"], host_name=name.replace("\x1b", ""))
    page = _get(shared, job_id, format="html").text
    body = page.split("<pre>")[1].removesuffix("</pre></body></html>\n")
    assert "<" not in body
    assert "http://evil" not in body
    assert "{{ 7*7 }}" in body
    listed = shared.api.http.get(f"/api/v2/jobs/{job_id}/job_events/").json()["results"]
    assert [event["host_name"] for event in listed] == [n.replace("\x1b", "") for n in names]


def test_a_large_output_is_streamed_exactly_and_never_whole_in_memory(shared: Shared) -> None:
    """100 MB in events of 1 MB; the server is in this process, so its memory is ours."""
    line = "0123456789abcdef" * 63 + "\n"
    text = (line * 1000)[:-1]
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running")
        for _ in range(100):
            add_events(connection, job_id, [text])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size, newlines = 0, 0
    path = f"/api/v2/jobs/{job_id}/stdout/?format=txt"
    with shared.api.http.stream("GET", path) as answer:
        for chunk in answer.iter_bytes():
            size += len(chunk)
            newlines += chunk.count(b"\n")
    assert (size, newlines) == (len(line) * 100_000, 100_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    tail = _get(shared, job_id, format="json", start_line=99_999).json()
    assert tail["content"] == line
    assert tail["range"] == {"start": 99_999, "end": 100_000, "absolute_end": 100_000}


def test_no_connection_is_held_while_a_reader_is_slow(shared: Shared) -> None:
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running")
        for _ in range(20):
            add_events(connection, job_id, ["x" * 1_000_000])
    with shared.api.http.stream("GET", f"/api/v2/jobs/{job_id}/stdout/") as answer:
        chunks = answer.iter_raw(1000)
        assert len(next(chunks)) == 1000
        assert shared.api.services is not None
        pool = shared.api.services.engine.pool
        wait_until(lambda: pool.checkedout() == 0)  # type: ignore[attr-defined]


def test_json_text_is_json_wherever_it_is_cut(shared: Shared) -> None:
    pieces = ['a"b', "\\", "\u2028", "tab\t", "ü" * 3, "\U0001f600", "\x1b[1mx"]
    with shared.engine.begin() as connection:
        job_id = make_job(connection, status="running")
        add_events(connection, job_id, pieces)
    raw = _get(shared, job_id, format="json").content
    assert json.loads(raw)["content"] == "".join(f"{piece}\n" for piece in pieces)
    for first, second in pairwise(range(len(pieces) + 1)):
        part = _get(shared, job_id, format="json", start_line=first, end_line=second).json()
        assert part["content"] == pieces[first] + "\n"
