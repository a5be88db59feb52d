"""What a machine or a container can hold, from the contents of the kernel's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers import measure_capacity as m

MEMINFO = "MemTotal:       16384000 kB\nMemFree:         1000000 kB\n"
TOTAL = 16_384_000 * 1024


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("max 100000\n", None), ("150000 100000\n", 1.5), ("50000\n", 0.5), ("", None)],
)
def test_a_cpu_quota_of_cgroup_v2_is_a_fraction_of_cpus(text: str, cpus: float | None) -> None:
    assert m.cpu_max_limit(text) == cpus


@pytest.mark.parametrize(
    ("quota", "period", "cpus"),
    [("-1\n", "100000\n", None), ("200000\n", "100000\n", 2.0), ("", "", None)],
)
def test_a_cpu_quota_of_cgroup_v1_is_a_fraction_of_cpus(
    quota: str, period: str, cpus: float | None
) -> None:
    assert m.cfs_limit(quota, period) == cpus


@pytest.mark.parametrize(
    ("text", "limit"), [("9223372036854771712\n", None), ("1073741824\n", 1 << 30), ("", None)]
)
def test_the_huge_number_of_cgroup_v1_is_no_memory_limit(text: str, limit: int | None) -> None:
    assert m.limit_in_bytes(text) == limit


def test_a_machine_without_limits_has_what_the_kernel_says(tmp_path: Path) -> None:
    assert m.measure(tree(tmp_path, {}), machine_cpus=4) == m.Measured(4.0, TOTAL)


def test_the_tightest_limit_of_the_cgroup_and_those_above_it_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/unit\n",
            "sys/fs/cgroup/slice/cpu.max": "100000 100000\n",
            "sys/fs/cgroup/slice/memory.max": "max\n",
            "sys/fs/cgroup/slice/unit/cpu.max": "300000 100000\n",
            "sys/fs/cgroup/slice/unit/memory.max": "2147483648\n",
        },
    )
    assert m.measure(root, machine_cpus=4) == m.Measured(1.0, 2 << 30)


def test_the_limits_of_cgroup_v1_count_too(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n",
            # as a container sees it: its own limits at the mount, the path is the host's
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
        },
    )
    assert m.measure(root, machine_cpus=4) == m.Measured(0.5, 512 << 20)


def test_a_limit_above_the_machine_is_no_more_than_the_machine(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": "900000 100000\n",
            "sys/fs/cgroup/memory.max": str(TOTAL * 4),
        },
    )
    assert m.measure(root, machine_cpus=2) == m.Measured(2.0, TOTAL)
