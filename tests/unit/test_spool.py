"""The spool: nothing lost, nothing twice, whatever the writer left behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.db.tables import job_event
from workers.spool import COLUMNS, SpooledEvent, SpoolError, SpoolReader, SpoolWriter, copy_line

EVENT = SpooledEvent(
    counter=1,
    uuid="u",
    parent_uuid="",
    event="runner_on_ok",
    created=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    stdout="ok: [a]",
    start_line=0,
    end_line=1,
    verbosity=0,
    failed=False,
    changed=True,
    host_name="a",
    play="p",
    task="t",
    role="",
    sanitized=False,
    truncated=False,
    event_data="{}",
)


def fill(directory: Path, count: int, *, end: bool = True, **options: int) -> SpoolWriter:
    writer = SpoolWriter(directory, **options)
    for counter in range(1, count + 1):
        writer.append_event(replace(EVENT, counter=counter))
    if end:
        writer.end(count)
    return writer


def counters(lines: list[bytes]) -> list[int]:
    return [int(line.split(b"\t", 1)[0]) for line in lines]


def read_all(reader: SpoolReader, **options: int) -> tuple[list[int], int | None]:
    found: list[int] = []
    offset = 0
    while True:
        batch = reader.read(offset, **options)
        found += counters(batch.lines)
        if batch.total is not None or batch.next_offset == offset:
            return found, batch.total
        offset = batch.next_offset


def test_a_line_holds_the_columns_of_job_event_in_their_order() -> None:
    table = [column.name for column in job_event.columns]
    assert table == ["job_day", "job_id", *COLUMNS]
    assert len(copy_line(EVENT).rstrip(b"\n").split(b"\t")) == len(COLUMNS)


_text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@given(_text, _text)
def test_any_text_survives_the_copy_format(stdout: str, task: str) -> None:
    line = copy_line(replace(EVENT, stdout=stdout, task=task))
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    values = dict(zip(COLUMNS, line.decode()[:-1].split("\t"), strict=True))
    assert (_unescaped(values["stdout"]), _unescaped(values["task"])) == (stdout, task)


def _unescaped(text: str) -> str:
    words = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    out, escaped = [], False
    for char in text:
        if escaped:
            out.append(words[char])
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            out.append(char)
    return "".join(out)


def test_events_come_back_in_order_over_many_segments(tmp_path: Path) -> None:
    writer = fill(tmp_path / "s", 50, segment_bytes=400)
    reader = SpoolReader(tmp_path / "s")
    assert len(list((tmp_path / "s").iterdir())) > 10
    assert read_all(reader) == (list(range(1, 51)), 50)
    assert read_all(reader, max_events=3) == (list(range(1, 51)), 50)
    assert reader.size == writer.offset


def test_one_event_is_read_whatever_its_size(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "s")
    writer.append_event(replace(EVENT, stdout="x" * 5_000_000))
    writer.append_event(replace(EVENT, counter=2))
    batch = SpoolReader(tmp_path / "s").read(0, max_bytes=1000)
    assert counters(batch.lines) == [1]


def test_a_live_run_has_no_total_and_the_next_read_goes_on(tmp_path: Path) -> None:
    writer = fill(tmp_path / "s", 2, end=False)
    reader = SpoolReader(tmp_path / "s")
    first = reader.read(0)
    assert (counters(first.lines), first.total, first.torn) == ([1, 2], None, False)
    assert reader.read(first.next_offset).lines == []
    writer.append_event(replace(EVENT, counter=3))
    writer.end(3)
    second = reader.read(first.next_offset)
    assert (counters(second.lines), second.total) == ([3], 3)


@pytest.mark.parametrize("missing", [1, 10, 40])
def test_a_torn_record_is_waited_for_and_cut_when_the_writer_is_dead(
    tmp_path: Path, missing: int
) -> None:
    whole = fill(tmp_path / "s", 2, end=False).offset
    writer = SpoolWriter(tmp_path / "other")
    for counter in (1, 2, 3):
        writer.append_event(replace(EVENT, counter=counter))
    raw = next((tmp_path / "other").iterdir()).read_bytes()
    segment = next((tmp_path / "s").iterdir())
    segment.write_bytes(raw[:-missing])
    reader = SpoolReader(tmp_path / "s")
    waiting = reader.read(0)
    assert (counters(waiting.lines), waiting.torn) == ([1, 2], True)
    assert segment.stat().st_size > whole
    cut = reader.read(0, cut=True)
    assert (counters(cut.lines), cut.next_offset, cut.total) == ([1, 2], whole, None)
    assert segment.stat().st_size == whole
    assert reader.read(0, cut=True).torn is False


def test_a_damaged_record_is_no_event(tmp_path: Path) -> None:
    fill(tmp_path / "s", 3)
    segment = next((tmp_path / "s").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 2] ^= 1
    segment.write_bytes(raw)
    assert counters(SpoolReader(tmp_path / "s").read(0).lines) == [1]


def test_a_run_is_spooled_once(tmp_path: Path) -> None:
    fill(tmp_path / "s", 1)
    with pytest.raises(SpoolError, match="spooled into before"):
        SpoolWriter(tmp_path / "s")


def test_a_write_that_fails_leaves_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = fill(tmp_path / "s", 2, end=False)
    real = __import__("os").write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) < 60:
            raise OSError(28, "No space left on device")
        return int(real(descriptor, content[:-40]))

    monkeypatch.setattr("workers.spool.os.write", full)
    with pytest.raises(SpoolError, match="No space left"):
        writer.append_event(replace(EVENT, counter=3))
    monkeypatch.undo()
    batch = SpoolReader(tmp_path / "s").read(0)
    assert (counters(batch.lines), batch.torn) == ([1, 2], False)


def test_nothing_spooled_yet_is_an_empty_batch(tmp_path: Path) -> None:
    reader = SpoolReader(tmp_path / "nowhere")
    assert reader.read(0).lines == []
    assert reader.size == 0
