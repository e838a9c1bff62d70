"""The supervisor and what ties processes together, with roles of a few lines."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from protoagent.core.errors import BadValue, Conflict
from protoagent.server import listening
from protoagent.server.family import StopFlag
from tests.services import shared
from tests.services.servers import CHECKOUT

pytestmark = pytest.mark.process

PROGRAM = """
import os, signal, subprocess, sys, time
from functools import partial
from protoagent.server import family
from protoagent.server.supervisor import Supervisor

def note(text):
    with open({log!r}, "a") as file:
        file.write(text + "\\n")

def steady(name):
    note(f"{{name}} {{os.getpid()}}")
    stop = family.StopFlag()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait(60)
    note(f"{{name}} ended")

{roles}

Supervisor(ROLES, say=lambda line: note("say " + line), grace_s=2).run()
note("over")
"""


class Family:
    def __init__(self, directory: Path, roles: str) -> None:
        self.log = directory / "log"
        self.log.touch()
        code = PROGRAM.format(log=str(self.log), roles=textwrap.dedent(roles))
        self.process = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT)

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def wait_for(self, line: str, count: int = 1) -> list[str]:
        def found() -> list[str]:
            hits = [one for one in self.lines if one.startswith(line)]
            return hits if len(hits) >= count else []

        hits = shared.wait_until(found, 15)
        assert hits, self.lines
        return hits

    def pid(self, name: str, nth: int = -1) -> int:
        return int(self.wait_for(f"{name} ")[nth].split()[1])


@pytest.fixture
def family(tmp_path):
    families: list[Family] = []

    def make(roles: str) -> Family:
        families.append(Family(tmp_path, roles))
        return families[-1]

    yield make
    for one in families:
        one.process.kill()
        one.process.wait(5)


def test_roles_run_until_the_supervisor_is_told_to_stop(family):
    one = family("ROLES = {'a': partial(steady, 'a'), 'b': partial(steady, 'b')}")
    one.wait_for("a ")
    one.wait_for("b ")

    one.process.send_signal(signal.SIGTERM)

    assert one.process.wait(10) == 0
    assert {"a ended", "b ended", "over", "say stopped"} <= set(one.lines)


def test_a_role_that_keeps_failing_is_tried_again_after_growing_pauses(family):
    one = family("""
        def fails():
            note(f"try {time.monotonic()}")
            sys.exit(7)
        ROLES = {'a': fails}
    """)

    times = [float(line.split()[1]) for line in one.wait_for("try ", 4)]

    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] < pauses[1] < pauses[2]
    assert "say a failed with exit code 7; starting it again in 0.1 s" in one.lines


def test_an_exception_in_a_role_is_shown_and_the_role_starts_again(family):
    one = family("""
        def breaks():
            note("try")
            raise ValueError("broken")
        ROLES = {'a': breaks}
    """)

    one.wait_for("try", 2)

    one.wait_for("say a failed with exit code 1")


def test_a_role_that_ignores_the_signal_is_killed_after_the_grace(family):
    one = family("""
        def stubborn():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note(f"a {os.getpid()}")
            time.sleep(60)
        ROLES = {'a': stubborn}
    """)
    pid = one.pid("a")
    started = time.monotonic()

    one.process.send_signal(signal.SIGTERM)

    assert one.process.wait(10) == 0
    assert 1.5 < time.monotonic() - started < 6
    assert shared.is_gone(pid)


def test_a_second_signal_does_not_wait_for_the_grace(family):
    one = family("""
        def stubborn():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note(f"a {os.getpid()}")
            time.sleep(60)
        ROLES = {'a': stubborn}
    """)
    one.pid("a")
    started = time.monotonic()

    one.process.send_signal(signal.SIGINT)
    one.wait_for("say stopping")
    one.process.send_signal(signal.SIGINT)

    assert one.process.wait(10) == 0
    assert time.monotonic() - started < 1.5


GRANDCHILD = """
    def parent():
        child = subprocess.Popen(["sleep", "60"])
        note(f"grandchild {child.pid}")
        steady("a")
    ROLES = {'a': parent}
"""


def test_what_a_dead_role_had_started_ends_with_it(family):
    one = family(GRANDCHILD)
    grandchild = one.pid("grandchild", 0)

    os.kill(one.pid("a", 0), signal.SIGKILL)

    assert shared.wait_until(lambda: shared.is_gone(grandchild), 10)
    assert len(one.wait_for("grandchild ", 2)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells only on Linux")
def test_forked_processes_follow_a_killed_parent_down_the_line(family):
    one = family("""
        def parent():
            family.follow_in_children(signal.SIGKILL)
            if os.fork() == 0:
                if os.fork() == 0:
                    note(f"grandchild {os.getpid()}")
                time.sleep(60)
            steady("a")
        ROLES = {'a': parent}
    """)
    grandchild, child = one.pid("grandchild"), one.pid("a")

    one.process.kill()
    one.process.wait(5)

    assert shared.wait_until(lambda: shared.is_gone(child) and shared.is_gone(grandchild), 10)


def test_an_idle_supervisor_uses_no_processor_time(family):
    one = family("ROLES = {'a': partial(steady, 'a')}")
    one.wait_for("a ")
    stat = Path(f"/proc/{one.process.pid}/stat")
    if not stat.exists():
        pytest.skip("reads /proc")
    before = stat.read_text().rpartition(")")[2].split()[11:13]

    time.sleep(1)

    assert stat.read_text().rpartition(")")[2].split()[11:13] == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_loaded_product_is_fit_for_forking(tmp_path):
    code = """
        import os, threading, django
        os.environ["DJANGO_SETTINGS_MODULE"] = "protoagent.settings"
        django.setup()
        from protoagent.server import roles
        for role in roles.ROLES:
            module = __import__(f"protoagent.server.{role}", fromlist=["run"])
            getattr(module, "preload", lambda: None)()
        from django.db import connections
        kinds = [os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
                 for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
        print(len(os.listdir("/proc/self/task")), threading.active_count())
        print([c.alias for c in connections.all(initialized_only=True) if c.connection])
        print([kind for kind in kinds if kind in ("socket", "anon_inode")])
    """

    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=CHECKOUT,
        env={**os.environ, "PROTOAGENT_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert printed == ["1 1", "[]", "[]"]


def test_a_stop_flag_set_in_a_handler_ends_the_wait():
    flag = StopFlag()
    signal.signal(signal.SIGALRM, lambda *_: flag.set())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    started = time.monotonic()

    assert flag.wait(10) is True
    assert time.monotonic() - started < 5


def test_a_stop_flag_that_is_not_set_waits_for_its_time():
    flag = StopFlag()

    assert flag.wait(0.01) is False
    assert flag.is_set() is False


def test_a_home_is_claimed_once(tmp_path):
    (tmp_path / "run").mkdir()
    lock = tmp_path / "run/serve.lock"
    listening.claim_home(lock, "b1", print)

    with pytest.raises(Conflict, match=f"served already, by process {os.getpid()}"):
        listening.claim_home(lock, "b2", print)


def test_who_claims_a_home_learns_which_family_had_it_before(tmp_path):
    (tmp_path / "run").mkdir()
    lock = tmp_path / "run/serve.lock"
    code = "import sys; from pathlib import Path; from protoagent.server import listening;"
    code += "listening.claim_home(Path(sys.argv[1]), 'b1', print)"
    subprocess.run([sys.executable, "-c", code, str(lock)], cwd=CHECKOUT, check=True)

    assert listening.claim_home(lock, "b2", print) == "b1"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:7870"),
        ("0.0.0.0", "http://127.0.0.1:7870"),
        ("::", "http://[::1]:7870"),
        ("::1", "http://[::1]:7870"),
        ("agent.example", "http://agent.example:7870"),
    ],
)
def test_the_address_for_people_is_one_that_can_be_called(host, url):
    assert listening.url(host, 7870) == url


def test_a_taken_port_is_a_conflict_with_a_way_out():
    taken = listening.open_socket("127.0.0.1", 0)
    port = taken.getsockname()[1]

    with taken, pytest.raises(Conflict, match=f"port {port}.*--port"):
        listening.open_socket("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_a_bad_value():
    with pytest.raises(BadValue, match=r"192\.0\.2\.1"):
        listening.open_socket("192.0.2.1", 0)


def test_an_ipv6_address_can_be_listened_on():
    with listening.open_socket("::1", 0) as listener:
        assert listener.getsockname()[0] == "::1"
