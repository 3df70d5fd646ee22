"""A connection to the coordinator (`ucprun coordinate`): one JSON object a line, after both sides have proved that they
know the secret. docs/healing.md has the messages."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucp_checkpoint._tls import Tls

PROTOCOL = 1
_LEAST_SECRET = 16
_SECONDS_TO_CONNECT = 5.0
_SILENCE_MILLISECONDS = 5000
_MOST_LINE = 1 << 20
_MOST_ENDS = 64  # That the coordinator takes in one message,
_MOST_REPORT = 50_000  # … whose line has at most 64 KiB.
_MOST_TEXT = 1000


class Refused(Exception):
    """The coordinator says no, or is not taken, in one sentence."""


def secret_of(path: str | None) -> bytes:
    """Of a file, without the blanks at its end; empty without one."""
    if not path:
        return b""
    try:
        secret = Path(path).read_bytes().rstrip(b" \t\r\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refused(f"`{path}`: the secret cannot be read: {why}") from None
    if len(secret) < _LEAST_SECRET:
        raise Refused(f"`{path}`: the secret has {len(secret)} bytes, and needs {_LEAST_SECRET}")
    return secret


def proof_of(secret: bytes, side: str, asked: str, answered: str) -> str:
    """SHA-256, each part behind its length."""
    parts = [secret, side.encode(), asked.encode(), answered.encode()]
    return hashlib.sha256(b"".join(struct.pack("<Q", len(part)) + part for part in parts)).hexdigest()


def line_of(message: dict[str, Any]) -> bytes:
    """With its end. What is not Unicode, such as in names of files, becomes `?`."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def failed(epoch: int, ends: list[dict[str, Any]]) -> dict[str, Any]:
    """The message about the first ends, with texts so short that the coordinator takes its line."""
    most = _MOST_TEXT
    while True:
        short = [{key: value[:most] if isinstance(value, str) else value for key, value in end.items()}
                 for end in ends[:_MOST_ENDS]]  # fmt: skip
        message = {"type": "failed", "epoch": epoch, "ends": short}
        if most == 0 or len(line_of(message)) <= _MOST_REPORT:
            return message
        most = most * 3 // 4


def _tls_of(connection: socket.socket, authorities: str, host: str) -> Tls:
    """Python can be built without OpenSSL, and then works without TLS."""
    try:
        from ucp_checkpoint._tls import Tls
    except ImportError as error:
        raise Refused(f"`tls_ca` needs Python's module `ssl`, which cannot be imported: {error}") from None
    return Tls(connection, authorities, host)


class Link:
    """The connection. An OSError means that it is gone. With `tls_ca`, a file of certificates, it is encrypted."""

    def __init__(self, host: str, port: int, secret: bytes, tls_ca: str | None = None) -> None:
        self._tls: Tls | None = None
        self._socket = socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT)
        self._received = b""
        try:
            for level, option, value in (
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MILLISECONDS),
            ):
                self._socket.setsockopt(level, option, value)
            if tls_ca:
                self._tls = _tls_of(self._socket, tls_ca, host)
            self._greet(secret)
        except BaseException:
            self._socket.close()
            raise

    @property
    def own_address(self) -> str:
        """Of this end."""
        return str(self._socket.getsockname()[0])

    def send(self, message: dict[str, Any]) -> None:
        """One line."""
        if self._tls:
            self._tls.send(line_of(message))
        else:
            self._socket.sendall(line_of(message))

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """The messages that have come, or come within that time."""
        until = time.monotonic() + seconds
        waiting = select.poll()  # Takes descriptors of any number.
        waiting.register(self._socket, select.POLLIN)
        while not (messages := self._take()):
            if not waiting.poll(max(0, until - time.monotonic()) * 1000):
                return []
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError("the coordinator has closed the connection")
            self._received += self._tls.take(received) if self._tls else received
            if len(self._received) > _MOST_LINE:
                raise ConnectionAbortedError("the coordinator's line is too long")
        return messages

    def close(self) -> None:
        """Nothing is sent any more."""
        self._socket.close()

    def _take(self) -> list[dict[str, Any]]:
        *lines, self._received = self._received.split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            raise ConnectionAbortedError("the coordinator's line is not JSON") from None
        return [message for message in messages if isinstance(message, dict)]

    def _greet(self, secret: bytes) -> None:
        asked = os.urandom(32).hex()
        self.send({"type": "hello", "version": PROTOCOL, "random": asked})
        answered = str(self._answer("challenge").get("random"))
        self.send({"type": "proof", "proof": proof_of(secret, "agent", asked, answered)})
        told = str(self._answer("welcome").get("proof"))
        if not hmac.compare_digest(told, proof_of(secret, "coordinator", asked, answered)):
            raise Refused("the coordinator does not know the secret")

    def _answer(self, kind: str) -> dict[str, Any]:
        while True:
            try:
                messages = self.receive(_SECONDS_TO_CONNECT)
            except ConnectionResetError:
                if kind == "welcome":
                    raise Refused("the coordinator does not take the secret of this node") from None
                if not self._tls:
                    raise ConnectionResetError("it closes the connection; does it speak TLS (`tls_ca`)?") from None
                raise
            if not messages:
                raise TimeoutError("the coordinator does not answer")
            for message in messages:
                if message.get("type") == kind:
                    return message
            raise Refused("the other side does not speak as a coordinator does")
