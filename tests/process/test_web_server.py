"""The web server around the application: frames, bodies, slow clients, and its end."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.services import shared
from tests.services.servers import CHECKOUT

pytestmark = pytest.mark.process
MIB = 1024 * 1024


@dataclass
class PlainServer:
    port: int
    count_file: Path
    process: subprocess.Popen[bytes]

    def socket(self, path: str, **options: object) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{path}", max_size=None, **options)

    def http(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    @property
    def sent(self) -> int:
        text = self.count_file.read_text() if self.count_file.exists() else ""
        return int(text or 0)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[PlainServer]:
    port, count_file = shared.free_port(), tmp_path / "count"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.process.plain_server", str(port), str(count_file)],
        cwd=CHECKOUT,
    )
    server = PlainServer(port, count_file, process)
    assert shared.wait_until(lambda: _listens(port), 20)
    yield server
    process.kill()
    process.wait(5)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_frame_of_the_whole_mebibyte_arrives(plain):
    with plain.socket("/echo") as client:
        client.send("x" * MIB)

        assert client.recv(10) == f"text {MIB}"


@pytest.mark.parametrize("size", [MIB + 1, 5 * MIB, 40 * MIB])
def test_an_oversized_frame_reaches_the_application_cut_and_closes_nothing(plain, size):
    with plain.socket("/echo") as client:
        client.send("x" * size)
        kind, length = client.recv(20).split()
        client.send("still here")

        assert (kind, client.recv(10)) == ("text", "text 10")
        assert MIB < int(length) <= 4 * MIB + 4


def test_an_oversized_message_in_many_frames_is_cut_too(plain):
    with plain.socket("/echo") as client:
        client.send("x" * 100_000 for _ in range(100))

        assert client.recv(20) == f"text {4 * MIB + 4}"


def test_a_cut_frame_never_ends_inside_a_character(plain):
    with plain.socket("/echo") as client:
        client.send("y" + "漢" * (3 * MIB))
        length = int(client.recv(20).split()[1])

        assert MIB < length <= (4 * MIB + 4) // 3 + 1


def test_text_that_is_not_utf8_arrives_as_bytes_and_closes_nothing(plain):
    with plain.socket("/echo") as client:
        client.send(b"\xff\xfe{", text=True)
        answer = client.recv(10)
        client.send("ok")

        assert (answer, client.recv(10)) == ("bytes 3", "text 2")


def test_no_more_is_sent_than_a_silent_client_takes(plain):
    with plain.socket("/flood", max_queue=1) as client:
        shared.wait_until(lambda: plain.sent > 20, 10)
        time.sleep(0.5)
        before = plain.sent
        time.sleep(1)

        assert plain.sent == before, "the server went on sending into its own memory"
        assert client.recv(10)


def test_sending_goes_on_when_the_client_reads_again(plain):
    with plain.socket("/flood", max_queue=1) as client:
        shared.wait_until(lambda: plain.sent > 20, 10)
        time.sleep(0.5)
        before = plain.sent

        for _ in range(before + 10):
            client.recv(10)

    assert plain.sent > before


def test_a_body_within_the_limit_arrives(plain):
    connection = plain.http()

    connection.request("POST", "/", body=b"x" * (2 * MIB))

    assert connection.getresponse().read() == str(2 * MIB).encode()


def test_a_body_announced_as_too_large_is_refused_in_json(plain):
    connection = plain.http()

    connection.request("POST", "/", body=b"x" * (17 * MIB))
    response = connection.getresponse()

    assert response.status == 413
    assert "16 MiB" in json.loads(response.read())["detail"]


def test_a_body_that_turns_out_too_large_is_refused_in_json(plain):
    connection = plain.http()

    connection.request("POST", "/", body=(b"x" * MIB for _ in range(20)), encode_chunked=True)
    response = connection.getresponse()

    assert response.status == 413
    assert "16 MiB" in json.loads(response.read())["detail"]


def test_a_restart_closes_sockets_with_1012(plain):
    with plain.socket("/echo") as client:
        client.send("hello")
        client.recv(10)

        plain.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(10)

    assert closed.value.rcvd.code == 1012
    assert plain.process.wait(10) == 0


def test_a_restart_answers_waiting_requests_with_503(plain):
    connection = plain.http()
    connection.request("GET", "/wait")
    threading.Timer(0.5, plain.process.send_signal, [signal.SIGTERM]).start()

    response = connection.getresponse()

    assert response.status == 503
    assert response.headers["Retry-After"] == "1"
    assert "restarts" in json.loads(response.read())["detail"]
    assert plain.process.wait(10) == 0


def test_the_server_does_not_say_what_it_runs_on(plain):
    connection = plain.http()

    connection.request("GET", "/")

    assert connection.getresponse().headers["Server"] is None


def test_the_answer_to_head_has_no_body_that_the_next_request_would_get(plain):
    with socket.create_connection(("127.0.0.1", plain.port), timeout=20) as connection:
        connection.sendall(b"HEAD /pieces HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.sendall(b"GET /pieces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"content-length: 10" in head.lower()
    assert rest.startswith(b"HTTP/1.1 200 ")
    assert rest.endswith(b"\r\n\r\nfirstother")
