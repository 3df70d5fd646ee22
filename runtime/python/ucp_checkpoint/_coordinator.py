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
from pathlib import Path
from typing import Any

PROTOCOL = 1
_LEAST_SECRET = 16
_SECONDS_TO_CONNECT = 5.0
_SILENCE_MILLISECONDS = 5000
_MOST_LINE = 1 << 20


class Refused(Exception):
    """The coordinator says no, in one sentence."""


def secret_of(path: str | None) -> bytes:
    """Of a file, without the blanks at its end; empty without one."""
    if not path:
        return b""
    secret = Path(path).read_bytes().rstrip(b" \t\r\n")
    if len(secret) < _LEAST_SECRET:
        raise Refused(f"`{path}`: the secret has {len(secret)} bytes, and needs {_LEAST_SECRET}")
    return secret


def proof_of(secret: bytes, side: str, asked: str, answered: str) -> str:
    """SHA-256, each part behind its length."""
    parts = [secret, side.encode(), asked.encode(), answered.encode()]
    return hashlib.sha256(b"".join(struct.pack("<Q", len(part)) + part for part in parts)).hexdigest()


class Link:
    """The connection. An OSError means that it is gone."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self._socket = socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT)
        self._received = b""
        try:
            for level, option, value in (
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MILLISECONDS),
            ):
                self._socket.setsockopt(level, option, value)
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
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """The messages that have come, or come within that time."""
        messages = self._take()
        if messages or not select.select([self._socket], [], [], seconds)[0]:
            return messages
        received = self._socket.recv(1 << 16)
        if not received:
            raise ConnectionResetError("the coordinator has closed the connection")
        self._received += received
        if len(self._received) > _MOST_LINE:
            raise ConnectionResetError("the coordinator's line is too long")
        return self._take()

    def close(self) -> None:
        """Nothing is sent any more."""
        self._socket.close()

    def _take(self) -> list[dict[str, Any]]:
        *lines, self._received = self._received.split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            raise ConnectionResetError("the coordinator's line is not JSON") from None
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
                raise
            if not messages:
                raise TimeoutError("the coordinator does not answer")
            for message in messages:
                if message.get("type") == kind:
                    return message
            raise Refused("the other side does not speak as a coordinator does")
