"""`ucprun coordinate --tls-certificate`: Python's own TLS on the other side, strangers without it, and wrong
certificates."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import socket
import ssl
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

from certificates import make_certificate
from coordinators import Agent, CoordinatorTest


def send_key_updates(connection: socket.socket, has_begun: Event) -> None:
    """Until the connection ends. Python's `ssl` has no function for them."""
    library = ctypes.CDLL(ctypes.util.find_library("ssl"))
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
    session = ctypes.c_void_p(library.SSL_new(context))
    library.SSL_set_fd(session, connection.fileno())
    count = 0
    if library.SSL_connect(session) == 1:
        while library.SSL_key_update(session, 1) == 1 and library.SSL_do_handshake(session) == 1:
            count += 1
            if count == 1000:
                has_begun.set()
    library.SSL_free(session)
    library.SSL_CTX_free(context)


class EncryptedAgent(Agent):
    """One connection by the `ssl` module."""

    def __init__(self, port: int, authority: Path) -> None:
        self.context = ssl.create_default_context(cafile=str(authority))
        super().__init__(port)

    def connect(self, port: int) -> socket.socket:
        """To a certificate that has the address."""
        return self.context.wrap_socket(super().connect(port), server_hostname="127.0.0.1")


class CoordinateTls(CoordinatorTest):
    """Each test has a coordinator with a certificate of its own."""

    def setUp(self) -> None:
        """The certificate is its own authority."""
        super().setUp()
        if "no TLS" in self.run_program("ucprun", "--version").stdout:
            command = ("ucprun", "coordinate", "--port", self.port, "--tls-certificate", "a", "--tls-key", "b")
            self.assert_refused(
                self.run_program(*command), 2, "--tls-certificate: this ucprun was built without OpenSSL"
            )
            self.skipTest("NOT RUN: this build has no OpenSSL")
        self.certificate, self.key = make_certificate(self.folder, "head")

    def start_with_tls(self) -> None:
        """It says so."""
        self.start("--tls-certificate", self.certificate, "--tls-key", self.key)
        self.assertIn(f"listening at port {self.port}, with TLS", self.log())

    def agent_of_a_world(self) -> EncryptedAgent:
        """The only one."""
        self.start_with_tls()
        agent = EncryptedAgent(self.port, self.certificate)
        self.addCleanup(agent.close)
        agent.join("n1", 1)
        self.assertEqual(agent.hear()["type"], "world")
        return agent

    def test_agents_and_people(self) -> None:
        """A world, and a line of several records."""
        self.start_with_tls()
        agent = EncryptedAgent(self.port, self.certificate)
        self.addCleanup(agent.close)
        self.assertTrue(agent.is_welcome)
        agent.join("n1", 1)
        self.assertEqual(agent.hear()["nodes"], 1)
        ends = [{"rank": rank, "exit": -9, "text": "x" * 900} for rank in range(50)]
        agent.say(type="failed", epoch=1, ends=ends)
        self.assertEqual(agent.hear()["type"], "restart")
        entries = json.loads(self.ask("log", "--json", "--tls-ca", str(self.certificate)).stdout)["entries"]
        self.assertEqual([entry["event"] for entry in entries], ["epoch", "failure"])
        status = self.ask("status", "--tls-ca", str(self.certificate))
        self.assertEqual(status.returncode, 0, status.stderr)

    def test_without_tls_nothing_is_said(self) -> None:
        """Not one byte, whatever comes; agents beat meanwhile."""
        agent = self.agent_of_a_world()
        silent = [socket.create_connection(("127.0.0.1", self.port), 20) for _ in range(100)]
        for stranger in silent:
            self.addCleanup(stranger.close)
        hello = b'{"type":"hello","version":1,"random":"' + b"ab" * 32 + b'"}\n'
        for garbage in (hello, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(5000), b"\x16\x03\x01\x3f\xff" * 9000):
            with socket.create_connection(("127.0.0.1", self.port), 20) as stranger, suppress(ConnectionError):
                stranger.sendall(garbage)
                self.assertEqual(stranger.recv(1), b"")
        for stranger in silent:
            stranger.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # The beginning of a greeting.
        agent.say(type="beat", epoch=1, step=4)
        self.wait_for(lambda: "t: step 4 has ended" in self.log())
        self.assertRegex(self.log(), "a connection from .* is closed: it does not speak TLS as this side does: ")
        result = self.ask("status")
        self.assert_refused(
            result, 2, f"127.0.0.1:{self.port}: it closes the connection; is the secret another one, or"
        )

    def test_wrong_certificates(self) -> None:
        """Of another authority, and of another host; the secret is not asked for."""
        self.start_with_tls()
        other, _ = make_certificate(self.folder, "other")
        result = self.ask("status", "--tls-ca", str(other))
        self.assert_refused(result, 2, f"127.0.0.1:{self.port}: its certificate is not taken: self")
        with self.assertRaises(ssl.SSLCertVerificationError):
            EncryptedAgent(self.port, other)
        self.certificate, self.key = make_certificate(self.folder, "elsewhere", "DNS:elsewhere")
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
        self.start_with_tls()
        result = self.ask("status", "--tls-ca", str(self.certificate))
        self.assert_refused(result, 2, "its certificate is not taken: IP address mismatch")

    def test_a_certificate_that_another_has_signed(self) -> None:
        """Either of both is enough."""
        authority = make_certificate(self.folder, "authority")
        self.certificate, self.key = make_certificate(self.folder, "signed", signer=authority)
        self.start_with_tls()
        for trusted in (authority[0], self.certificate):
            result = self.ask("status", "--tls-ca", str(trusted))
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_records_without_a_text(self) -> None:
        """A stranger sends as many as it can, and an agent is heard."""
        agent = self.agent_of_a_world()
        with socket.create_connection(("127.0.0.1", self.port), 20) as stranger, ThreadPoolExecutor(1) as threads:
            stranger.settimeout(None)  # OpenSSL would not wait on it.
            has_begun = Event()
            threads.submit(send_key_updates, stranger, has_begun)
            try:
                self.assertTrue(has_begun.wait(30))
                agent.say(type="beat", epoch=1, step=4)
                self.wait_for(lambda: "t: step 4 has ended" in self.log(), 5)
            finally:
                with suppress(OSError):  # It may have ended.
                    stranger.shutdown(socket.SHUT_RDWR)

    def test_no_answer(self) -> None:
        """Of another program, and of a coordinator without TLS."""
        self.start()
        result = self.ask("status", "--tls-ca", str(self.certificate))
        self.assert_refused(result, 2, "it closes the connection; is the secret another one, or does it speak no TLS?")
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
            result = self.ask("status", "--tls-ca", str(self.certificate))
        self.assert_refused(result, 2, f"127.0.0.1:{self.port}: it does not answer in 10 s; does it speak TLS?")

    def test_wrong_files(self) -> None:
        """One sentence each, before anything is listened to."""
        _, other = make_certificate(self.folder, "other")
        rsa = self.folder / "rsa.key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", rsa], check=True, capture_output=True)
        command = ("ucprun", "coordinate", "--port", self.port)
        for certificate, key, code, words in (
            ("nowhere", self.key, 2, "nowhere"),
            (self.secret, self.key, 1, f"`{self.secret}` is not a certificate in PEM: no start line"),
            (self.certificate, self.secret, 1, f"`{self.secret}` is not the key of `{self.certificate}`, in PEM"),
            (
                self.certificate,
                other,
                1,
                f"`{other}` is not the key of `{self.certificate}`, in PEM and without a pass",
            ),
            (self.certificate, rsa, 1, f"`{rsa}` is not the key of `{self.certificate}`"),
            ("", self.key, 1, "is empty: what stands after `--tls-certificate`"),
            (self.certificate, "", 1, "is empty: what stands after `--tls-key`"),
        ):
            result = self.run_program(*command, "--tls-certificate", certificate, "--tls-key", key)
            self.assert_refused(result, code, words)
        result = self.run_program(*command, "--tls-key", self.key)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--tls-key requires --tls-certificate", result.stderr)
        result = self.ask("status", "--tls-ca", str(self.secret))
        self.assert_refused(result, 1, f"`{self.secret}` has no certificate in PEM: ")
        result = self.ask("status", "--tls-ca", "")
        self.assert_refused(result, 1, "is empty: what stands after `--tls-ca`")


if __name__ == "__main__":
    unittest.main()
