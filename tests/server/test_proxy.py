"""nginx with the lines of the documentation in front of a server: what only a proxy does well."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from databases import wait_until
from needed import need
from served import HANG_TIMEOUT, JSON, PATIENT, Served, create, in_thread, outcomes, receipt

from bestarm.server.api import plan
from bestarm.server.tokens import Role

HOST = "experiments.example.org"
AROUND = """
daemon off; master_process off; pid {folder}/pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/a; uwsgi_temp_path {folder}/b; scgi_temp_path {folder}/c;
    include {folder}/bestarm.conf;
}}
"""


def documented(**changes: tuple[str, str]) -> str:
    """The lines of the documentation, with what a test needs put in place of what is there."""
    text = (Path(__file__).parents[2] / "docs" / "self-host.md").read_text(encoding="utf-8")
    found = re.search(r"^```nginx\n(.*?)^```$", text, re.M | re.S)
    assert found is not None
    lines = found[1]
    for before, after in changes.values():
        assert lines.count(before) == 1, before
        lines = lines.replace(before, after)
    return lines


def without_checks() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Proxied:
    """A server behind nginx."""

    def __init__(self, served: Served, port: int) -> None:
        self.served, self.port = served, port

    def client(self, role: Role | None = Role.MANAGE) -> httpx.Client:
        headers = {"Host": HOST}
        if role is not None:
            headers["Authorization"] = f"Bearer {self.served.token(role)}"
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}/api/v1",
            headers=headers,
            timeout=HANG_TIMEOUT,
            verify=without_checks(),
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG_TIMEOUT)

    def answers(self) -> bool:
        try:
            self.connect().close()
        except ConnectionError:
            return False
        return True


@contextmanager
def running(folder: Path, lines: str) -> Iterator[None]:
    (folder / "bestarm.conf").write_text(lines, encoding="utf-8")
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder), encoding="utf-8")
    command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait(HANG_TIMEOUT)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    need("nginx", package="nginx-light")
    need("openssl", package="openssl")
    folder = tmp_path_factory.mktemp("proxy")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    files = ["-subj", f"/CN={HOST}", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run([*make.split(), *files], cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"sqlite:///{folder / 'store.db'}"
    with in_thread(url, local=False, hosts=(HOST,), limits=PATIENT) as served:
        lines = documented(
            listen=("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            server=("127.0.0.1:8000", f"127.0.0.1:{served.port}"),
            certificate=(f"/etc/ssl/{HOST}.pem", f"{folder}/certificate.pem"),
            key=(f"/etc/ssl/{HOST}.key", f"{folder}/key.pem"),
            few=("limit_conn bestarm 100", "limit_conn bestarm 5"),
            soon=("client_header_timeout 10s", "client_header_timeout 1s"),
        )
        with running(folder, lines):
            made = Proxied(served, port)
            wait_until(made.answers)
            with made.client() as client:
                create(client)
            yield made


def test_one_asks_and_tells_with_a_token_alone(proxied: Proxied) -> None:
    with proxied.client(Role.TELL) as client:
        given = client.post("/experiments/offer/ask", json={"count": 2}).json()["assignments"]
        rewards = {each["id"]: 1.0 for each in given}
        told = client.post("/experiments/offer/tell", json=outcomes(rewards))
        assert told.json() == receipt(recorded=2)
    with proxied.client(None) as client:
        assert client.get("/experiments").status_code == 401


def test_the_progress_of_a_plan_comes_as_it_happens(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = (
        'import time\nprint(\'{"progress": {"done": 0, "total": 1}}\', flush=True)\n'
        "time.sleep(1000)"
    )
    monkeypatch.setattr(plan, "_WORKER", ("-c", endless))
    body = {"options": ["old", "new"], "gap": 0.1}
    with proxied.client(Role.TELL) as client, client.stream("POST", "/plan", json=body) as stream:
        assert next(stream.iter_lines()) == '{"progress": {"done": 0, "total": 1}}'


def test_one_address_has_few_connections(proxied: Proxied) -> None:
    waiting = proxied.served.post("Content-Type: application/json", "Content-Length: 9")
    waiting = waiting.replace(b"Host: localhost", f"Host: {HOST}".encode())
    with proxied.client() as client, ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(proxied.connect())
            stack.enter_context(without_checks().wrap_socket(connection)).sendall(waiting)
        wait_until(lambda: client.get("/experiments").status_code == 429)
    with proxied.client() as client:
        wait_until(lambda: client.get("/experiments").status_code == 200)


def test_a_head_that_comes_too_slowly_is_given_up(proxied: Proxied) -> None:
    with without_checks().wrap_socket(proxied.connect()) as connection:
        connection.sendall(b"GET /api/v1/experiments HTTP/1.1\r\n")
        assert connection.recv(65536)[:13] in {b"", b"HTTP/1.1 408 "}


def test_a_head_without_end_is_refused(proxied: Proxied) -> None:
    with without_checks().wrap_socket(proxied.connect()) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_idle_connections_keep_nobody_out(proxied: Proxied) -> None:
    """More of them than the server itself would take."""
    with ExitStack() as stack, proxied.client() as client:
        for _ in range(PATIENT.connections + 50):
            stack.enter_context(proxied.connect())
        assert client.get("/experiments").status_code == 200


def test_a_body_that_is_too_large_is_refused(proxied: Proxied) -> None:
    with proxied.client() as client:
        sent = client.post("/experiments/offer/tell", content=b" " * 8_500_000, headers=JSON)
        assert sent.status_code == 413
