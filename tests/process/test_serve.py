"""`serve` as an operator and an init system meet it: real processes, real signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.services import shared
from tests.services.servers import CHECKOUT, Server

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def role_pid(server: Server, role: str) -> int:
    assert server.process is not None
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    for pid in map(int, children.split()):
        if Path(f"/proc/{pid}/comm").read_text().strip() == f"protoagent-{role}"[:15]:
            return pid
    raise AssertionError(f"no {role} below {server.process.pid}")


def heartbeat_pids(server: Server, role: str) -> set[int]:
    rows = server.query(f"SELECT pid FROM journal_heartbeat WHERE role = '{role}'")
    return {pid for (pid,) in rows}


def processor_seconds(server: Server) -> float:
    """What the whole family has used so far."""
    assert server.process is not None
    ticks = 0
    for pid in (server.process.pid, *server.children()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def serve_once(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    server = Server(home, environment)
    return server.manage("serve", *arguments)


def expect_one_line(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    text = (result.stdout + result.stderr).strip()
    assert result.returncode != 0
    assert len(text.splitlines()) == 1, text
    assert "Traceback" not in text
    for part in parts:
        assert part in text


def test_serve_prints_where_the_console_is_and_how_to_sign_in(server):
    printed = server.log

    assert f"Console  {server.url}/" in printed
    assert server.sign_in_link.startswith(f"{server.url}/login/")


def test_a_second_start_migrates_nothing_and_is_quick(make_server):
    server = make_server(bare=True)
    server.stop()

    server.start()

    # Processor time, because a busy machine makes everything late.
    assert processor_seconds(server) < 5
    assert server.log.count("bringing the database up to date") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_ends_every_process(make_server, number):
    server = make_server()
    below = list(server.children())

    code = server.stop(number)

    assert code == 0
    assert len(below) >= 6
    assert [pid for pid in below if shared.is_alive(pid)] == []
    assert "stopped" in server.log


@pytest.mark.parametrize("role", ["web", "worker", "ticker"])
def test_a_killed_role_is_started_again(server, role):
    old = role_pid(server, role)
    orphans_to_be = [pid for pid in server.children() if os.getpgid(pid) == old]

    os.kill(old, signal.SIGKILL)
    shared.wait_until(lambda: heartbeat_pids(server, role) - {old}, 15)

    assert role_pid(server, role) != old
    assert shared.wait_until(server.is_ready, 15)
    assert not any(shared.is_alive(pid) for pid in orphans_to_be)
    assert f"{role} was killed by SIGKILL; starting it again" in server.log


def test_connections_wait_while_the_web_process_is_started_again(server):
    os.kill(role_pid(server, "web"), signal.SIGKILL)

    answers = [httpx.get(f"{server.url}/healthz", timeout=20).status_code for _ in range(3)]

    assert answers == [200, 200, 200]


def test_no_process_outlives_a_killed_supervisor(server):
    below = list(server.children())

    server.process.kill()
    server.process.wait(5)

    assert shared.wait_until(lambda: not any(shared.is_alive(pid) for pid in below), 15)


def test_serve_starts_again_right_after_its_supervisor_was_killed(server):
    server.process.kill()
    server.process.wait(5)

    server.start()

    assert server.is_ready()


def test_a_killed_queue_process_brings_up_a_whole_new_worker(server):
    worker = role_pid(server, "worker")
    queue_processes = [
        pid for pid in server.children() if os.getpgid(pid) == worker and pid != worker
    ]

    os.kill(queue_processes[0], signal.SIGKILL)

    assert shared.wait_until(lambda: not shared.is_alive(worker), 15)
    assert shared.wait_until(lambda: heartbeat_pids(server, "worker") - {worker}, 15)
    assert not any(shared.is_alive(pid) for pid in queue_processes)


def test_one_role_can_run_alone(make_server):
    server = make_server(arguments=["--role", "web"], start=False).start(wait=False)

    ready = shared.wait_until(lambda: _failing(server.url), 20)

    assert set(ready) == {"worker", "ticker"}
    assert len(server.children()) == 1


def _failing(url: str) -> dict[str, str] | None:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).json().get("failing")
    except httpx.HTTPError:
        return None


def test_readiness_names_a_role_that_has_gone(make_server):
    server = make_server()
    os.kill(role_pid(server, "ticker"), signal.SIGSTOP)

    failing = shared.wait_until(lambda: _failing(server.url), 30, 0.5)

    assert list(failing) == ["ticker"]
    os.kill(role_pid(server, "ticker"), signal.SIGCONT)


def test_a_port_in_use_ends_with_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])

        result = serve_once(tmp_path, "--port", port)

    expect_one_line(result, f"port {port}", "in use")


def test_a_second_serve_on_one_home_ends_with_one_line(server):
    result = serve_once(server.home)

    expect_one_line(result, "served already", str(server.process.pid))
    assert server.is_ready()


def test_an_unreadable_configuration_ends_with_one_line(tmp_path):
    (tmp_path / "config.yaml").write_text("model: [unclosed\n")

    result = serve_once(tmp_path)

    expect_one_line(result, "config.yaml")


def test_a_wrong_environment_variable_ends_with_one_line(tmp_path):
    result = serve_once(tmp_path, PROTOAGENT_PORT="seventy")

    expect_one_line(result, "PROTOAGENT_PORT", "seventy")


def test_an_unreachable_database_ends_with_one_line_without_the_password(tmp_path):
    url = f"postgres://ada:hunter2@127.0.0.1:{shared.free_port()}/agent"

    result = serve_once(tmp_path, DATABASE_URL=url)

    expect_one_line(result, "database")
    assert "hunter2" not in result.stderr


def test_a_database_that_is_no_database_ends_with_one_line(tmp_path):
    (tmp_path / "db.sqlite3").write_bytes(b"this is not a database" * 100)

    result = serve_once(tmp_path)

    expect_one_line(result, "database", "db.sqlite3")


def test_an_address_of_another_machine_ends_with_one_line(tmp_path):
    result = serve_once(tmp_path, "--host", "192.0.2.7")

    expect_one_line(result, "192.0.2.7")


def test_an_unknown_role_ends_with_a_usage_line(tmp_path):
    result = serve_once(tmp_path, "--role", "chef")

    assert result.returncode != 0
    assert "web, worker, ticker" in result.stderr.replace("'", "")


def test_serve_works_on_postgres(postgres_url, make_server):
    server = make_server({"DATABASE_URL": postgres_url})

    assert server.is_ready()
    assert server.query("SELECT count(*) FROM journal_agent") == [(1,)]


def test_the_home_is_made_private(server):
    assert server.home.stat().st_mode & 0o077 == 0
    assert (server.home / "signing.key").stat().st_mode & 0o077 == 0


def test_python_m_and_manage_py_are_the_same_command(tmp_path):
    server = Server(tmp_path, {})
    results = [
        subprocess.run(
            [sys.executable, *start, "help"],
            cwd=CHECKOUT,
            env=server.full_environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for start in (["-m", "protoagent"], ["manage.py"])
    ]

    assert results[0] == results[1]
    assert "login-link" in results[0]
