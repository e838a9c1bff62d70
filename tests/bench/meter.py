"""Memory and processor time of processes and of the machine, read from /proc (Linux)."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
QUIET_PERCENT = 15.0


def family(pid: int) -> list[int]:
    """The process and everything below it."""
    found = [pid]
    for parent in found:
        for file in (PROC / str(parent) / "task").glob("*/children"):
            found += [int(child) for child in _read(file).split()]
    return found


def name_of(pid: int) -> str:
    """What the process calls itself."""
    return _read(PROC / str(pid) / "comm").strip()


def parent(pid: int) -> int | None:
    """The process that has started this one; None when there is no such process."""
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def processor_s(pids: Iterable[int]) -> float:
    """Processor seconds that these processes have used so far; an ended one counts as none."""
    return sum(_ticks(pid) for pid in pids) / TICKS_PER_S


def machine_s() -> float:
    """Processor seconds that the machine has spent on anything since it started."""
    user, nice, system, _idle, _disk, irq, softirq, steal = map(
        int, _read(PROC / "stat").splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def memory_mib(pids: Iterable[int]) -> float:
    """Memory of these processes together (PSS): a page that several share counts once."""
    return sum(_pss_kib(pid) for pid in pids) / 1024


def by_role(pid: int) -> dict[str, list[int]]:
    """The processes of one `serve`, by what they are called: web, worker, job, ticker."""
    roles: dict[str, list[int]] = defaultdict(list)
    for member in family(pid):
        name = name_of(member)
        roles["supervisor" if member == pid else name.removeprefix("protoagent-")].append(member)
    return dict(roles)


@dataclass
class Clock:
    """Processor use since the clock was made, of the measured process and of everybody else.

    `ours` are the further processes of the benchmark. What the machine spends on neither
    is noise that spoils a measurement.
    """

    measured: int
    ours: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        self._start = self._read()

    def _read(self) -> tuple[float, float, float]:
        # A set: the server and the gateway are children of the benchmark.
        ours = {member for pid in (self.measured, *self.ours) for member in family(pid)}
        return processor_s(family(self.measured)), processor_s(ours), machine_s()

    @property
    def wall_s(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self._began

    def used_s(self) -> float:
        """Processor seconds of the measured process and everything below it."""
        return self._read()[0] - self._start[0]

    def elsewhere_percent(self) -> float:
        """What everybody else used, as a share of one core."""
        _, ours, machine = (
            now - before for now, before in zip(self._read(), self._start, strict=True)
        )
        return max(0.0, machine - ours) / self.wall_s * 100


def wait_until_quiet(patience_s: float) -> bool:
    """Whether the machine did next to nothing for a second before `patience_s` were over."""
    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        before, began = machine_s(), time.perf_counter()
        time.sleep(1.0)
        if (machine_s() - before) / (time.perf_counter() - began) * 100 < QUIET_PERCENT:
            return True
    return False


def _ticks(pid: int) -> int:
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def _pss_kib(pid: int) -> int:
    for line in _read(PROC / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _read(file: Path) -> str:
    """The text of a file of /proc; nothing when its process has just ended."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
