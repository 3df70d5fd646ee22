"""TLS on a connection to the coordinator. One thread sends while another one receives, which the `ssl` module's own
sockets cannot, so its objects are given bytes, and no socket."""

from __future__ import annotations

import select
import socket
import ssl
import time
from pathlib import Path
from threading import Lock

from ucp_checkpoint._coordinator import Refused

_READ = 1 << 16
_SECONDS_TO_AGREE = 5.0


class Tls:
    """Of a socket whose other end is at `host`. Its certificate must be in the file `authorities`, in PEM, or signed by
    one there, as for `ucprun cluster`."""

    def __init__(self, connection: socket.socket, authorities: str, host: str) -> None:
        try:
            Path(authorities).read_bytes()
            context = ssl.create_default_context(cafile=authorities)
        except ssl.SSLError as error:
            raise Refused(f"`{authorities}` has no certificate in PEM: {error.reason}") from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Refused(f"`{authorities}`: the certificates cannot be read: {why}") from None
        # Versions of Python have different defaults.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._socket = connection
        self._lock = Lock()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._in, self._out, server_hostname=host)
        try:
            self._shake_hands()
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"its certificate is not taken: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Refused(f"it does not speak TLS as this side does: {error.reason}") from None

    def send(self, data: bytes) -> None:
        """All of it."""
        with self._lock:
            while data:  # A record has at most 16 KiB.
                data = data[self._session.write(data) :]
            self._socket.sendall(self._out.read())

    def take(self, data: bytes) -> bytes:
        """The text of bytes that have come from the socket; empty, if more of them are to come."""
        with self._lock:
            self._in.write(data)
            said = b""
            try:
                while text := self._session.read(_READ):
                    said += text
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):  # The socket's own end follows.
                pass
            if answer := self._out.read():
                self._socket.sendall(answer)
            return said

    def _shake_hands(self) -> None:
        until = time.monotonic() + _SECONDS_TO_AGREE
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._out.read())
            else:
                return self._socket.sendall(self._out.read())
            seconds = until - time.monotonic()
            if seconds <= 0 or not waiting.poll(seconds * 1000):
                raise TimeoutError(f"it does not answer in {_SECONDS_TO_AGREE:.0f} s; does it speak TLS?")
            received = self._socket.recv(_READ)
            if not received:
                raise ConnectionResetError("the coordinator has closed the connection; does it speak TLS?")
            self._in.write(received)
