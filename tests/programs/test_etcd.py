"""`ucprun coordinate --registry etcd://…`: one of several coordinators leads, and its decisions outlive it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
import unittest
from collections import Counter

import etcd
from coordinators import Agent, CoordinatorTest

from programs import PROGRAMS

MANY = 130
MOST_PUTS = 100  # Of a transaction. etcd refuses more than 128.


def assert_refused(test: CoordinatorTest, code: int, url: str, *words: str) -> None:
    """One sentence."""
    result = test.run_program("ucprun", "coordinate", "--port", test.port, "--registry", url)
    test.assert_refused(result, code, *words)


@unittest.skipIf(etcd.IS_NOT_THERE, "NOT RUN: there is no etcd")
class EtcdTest(CoordinatorTest):
    """Each test has an etcd and two ports for coordinators."""

    def setUp(self) -> None:
        """Coordinators end before etcd does."""
        super().setUp()
        self.etcd = etcd.Etcd(self.folder)
        self.addCleanup(self.etcd.remove)
        (self.port, self.other) = etcd.free_ports(2)

    def lead(self) -> subprocess.Popen[str]:
        """The first coordinator, with its log in `log`."""
        process = self.start("--registry", self.etcd.url)
        self.assertIn("listening", self.log())
        return process

    def second(self) -> subprocess.Popen[str]:
        """Its log is in `second`."""
        log = (self.folder / "second").open("w")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [str(PROGRAMS / "ucprun"), "coordinate", "--port", str(self.other), "--secret-file", str(self.secret),
             "--registry", self.etcd.url], cwd=self.folder, stdout=log, stderr=log, text=True,
        )  # fmt: skip
        self.addCleanup(self.end, process)
        return process

    def second_says(self) -> str:
        """So far."""
        return (self.folder / "second").read_text()

    def resume(self) -> list[Agent]:
        """Both agents of two(), at the second coordinator."""
        agents = [Agent(self.other), Agent(self.other)]
        for number, agent in enumerate(agents):
            self.addCleanup(agent.close)
            agent.say(type="resume", epoch=1, task="t", node=f"n{number}", host="h", port=1, least=1, most=2,
                      rank=number, nodes=2)  # fmt: skip
        return agents

    def test_the_next_one_takes_over(self) -> None:
        """When the lease of a killed one ends. It knows the epoch, and repeats nothing."""
        first = self.lead()
        agents = self.two()
        self.second()
        self.wait_for(lambda: f"waiting: process {first.pid} of " in self.second_says())
        for _ in range(6):  # Longer than a lease, which the first one renews.
            for agent in agents:
                agent.say(type="beat", epoch=1)
            time.sleep(1)
        self.assertNotIn("listening", self.second_says())
        first.kill()
        first.wait()
        for agent in agents:
            agent.close()
        self.wait_for(lambda: "listening" in self.second_says())
        again = self.resume()
        again[1].say(type="failed", epoch=1, ends=[{"rank": 1, "exit": -9}])
        for number, agent in enumerate(again):
            self.assertEqual(agent.hear()["type"], "restart")
            agent.join(f"n{number}", 2, epoch=1)
        self.assertEqual([agent.hear()["epoch"] for agent in again], [2, 2])
        self.assertEqual(self.etcd.events(), ["epoch", "failure", "epoch"])

    def test_one_that_ends_hands_over(self) -> None:
        """Its key is gone when it has ended."""
        first = self.lead()
        self.assertEqual(len(self.etcd.values(etcd.LEADER)), 1)
        self.end(first)
        self.assertEqual(self.etcd.values(etcd.LEADER), [])

    def test_a_coordinator_that_was_stopped_decides_nothing(self) -> None:
        """Another one leads when it goes on: it ends, and has sent nothing."""
        first = self.lead()
        agents = self.two()
        second = self.second()
        first.send_signal(signal.SIGSTOP)
        self.wait_for(lambda: "listening" in self.second_says())
        agents[1].say(type="failed", epoch=1, ends=[{"rank": 1, "exit": -9}])
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(20), 2)
        self.assertRegex(self.log(), "tasks go on without a coordinator: the lease of 5 s at `etcd://.*` has run out: ")
        self.assertEqual([agent.hear() for agent in agents], [{}, {}])
        self.assertEqual(self.etcd.events(), ["epoch"])
        self.assertIsNone(second.poll())

    def test_a_decision_after_another_one_has_taken_over(self) -> None:
        """The transaction fails, although the lease of this one goes on by its clock."""
        first = self.lead()
        agents = self.two()
        self.etcd.delete(etcd.LEADER)
        self.etcd.put(etcd.LEADER, "another one")
        agents[1].say(type="failed", epoch=1, ends=[{"rank": 1, "exit": -9}])
        self.assertEqual(first.wait(20), 2)
        self.assertIn("another coordinator has taken over", self.log())
        self.assertEqual([agent.hear() for agent in agents], [{}, {}])
        self.assertEqual(self.etcd.events(), ["epoch"])

    def says_one_of(self, *words: str) -> str:
        """The first coordinator does at last."""
        self.wait_for(lambda: any(word in self.log() for word in words))
        return next(word for word in words if word in self.log())

    def test_many_nodes_are_lost_at_once(self) -> None:
        """A transaction has many entries, so that they are in etcd before the lease ends. The next one knows all."""
        first = self.lead()
        agents = [Agent(self.port) for _ in range(MANY)]
        for number, agent in enumerate(agents):
            agent.join(f"n{number}", MANY)
        for agent in agents:
            self.assertEqual(agent.hear()["nodes"], MANY)
        for agent in agents:
            agent.close()
        self.wait_for(lambda: first.poll() is not None or len(self.etcd.pairs(etcd.ENTRIES)) > MANY, 120)
        self.end(first)
        pairs = self.etcd.pairs(etcd.ENTRIES)
        self.assertGreater(len(pairs), MANY)
        by_revision = Counter(pair["mod_revision"] for pair in pairs)
        self.assertLessEqual(max(by_revision.values()), MOST_PUTS)
        self.assertLess(len(by_revision), len(pairs) / 2)
        self.second()
        self.wait_for(lambda: "listening" in self.second_says())
        self.port = self.other
        log = json.loads(self.ask("log", "--json").stdout)
        self.assertEqual([entry["event"] for entry in log["entries"]], self.etcd.events())

    def test_a_port_that_is_taken(self) -> None:
        """One that waits says so at once, and not when it leads."""
        self.lead()
        assert_refused(self, 2, self.etcd.url, f"cannot listen at port {self.port}: ")

    def test_etcd_is_away_for_a_moment(self) -> None:
        """The coordinator says so, and goes on. If this test itself came too late to let etcd go on, it tries again."""
        for _ in range(5):
            first = self.lead()
            agents = self.two()
            self.etcd.process.send_signal(signal.SIGSTOP)
            self.says_one_of("warning: the lease is not renewed, and has ", "has run out")
            self.etcd.process.send_signal(signal.SIGCONT)
            if "is back" in self.says_one_of(f"`{self.etcd.url}` is back", "has run out"):
                break
            first.wait()
            self.etcd.clear()
        agents[1].say(type="failed", epoch=1, ends=[{"rank": 1, "exit": -9}])
        self.assertEqual([agent.hear()["type"] for agent in agents], ["restart", "restart"])

    def test_etcd_is_killed(self) -> None:
        """The coordinator ends with its lease. With the same data, the next one knows all of it."""
        first = self.lead()
        self.two()
        self.etcd.end()
        self.assertEqual(first.wait(20), 2)
        self.assertIn("connection refused", self.log())
        self.etcd.start()
        self.second()
        self.wait_for(lambda: "listening" in self.second_says())
        self.assertEqual(len(self.resume()), 2)
        self.assertEqual(self.etcd.events(), ["epoch"])

    def test_etcd_hangs(self) -> None:
        """The coordinator ends with its lease."""
        first = self.lead()
        self.etcd.process.send_signal(signal.SIGSTOP)
        self.assertEqual(first.wait(30), 2)
        self.assertRegex(self.log(), "has run out: .*it does not answer in time")

    def test_damaged_entries(self) -> None:
        """The key is named."""
        self.etcd.put(f"{etcd.ENTRIES}{0:016}", '{"time":1')
        assert_refused(self, 2, self.etcd.url, f"the key `{etcd.ENTRIES}{0:016}` is damaged: ")
        self.etcd.delete(f"{etcd.ENTRIES}{0:016}")
        self.etcd.put(f"{etcd.ENTRIES}{1:016}", "{}")
        assert_refused(self, 2, self.etcd.url, f"the key `{etcd.ENTRIES}{0:016}` is missing, and later ones are there")


class RegistryTest(CoordinatorTest):
    """Without etcd."""

    def test_urls(self) -> None:
        """A user is refused without showing the password."""
        for url in ("etcd://host", "etcd://:2379", "https://host:2379", "etcd://host:23x", "h:2379", "etcd://h:1\x1b"):
            assert_refused(self, 1, url, "is not a registry such as etcd://host:2379")
        assert_refused(self, 2, f"etcd://[::1]:{self.port}", "connect: ")
        assert_refused(self, 1, "etcd://me:pass@host:2379", "names a user, and ucp speaks to etcd without one")
        result = self.run_program("ucprun", "coordinate", "--registry", "etcd://h:1", "--journal", "j")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--journal and --registry contradict each other", result.stderr)

    def test_servers_that_are_not_etcd(self) -> None:
        """Nobody, and answers of other kinds."""
        (port,) = etcd.free_ports(1)
        url = f"etcd://127.0.0.1:{port}"
        assert_refused(self, 2, url, "connection refused")
        for answer, words in (
            (b"", "it does not answer as HTTP does: ``"),
            (b"SSH-2.0-x\x1b[31m\r\n\r\n", r"it does not answer as HTTP does: `SSH-2.0-x\x1b[31m\x0d\n"),
            (b"HTTP/1.0 404 Not Found\r\n\r\nno\n", r"it refuses with HTTP status 404: no\n"),
            (b'HTTP/1.0 503 x\r\n\r\n{"error":"etcdserver: no leader"}', "HTTP status 503: etcdserver: no leader"),
            (b"HTTP/1.0 200 OK\r\n\r\n[1", "its answer is not an object of JSON: `[1`"),
            (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * (1 << 20), "its answer is not an object of JSON: `[[[["),
            (b'HTTP/1.0 200 OK\r\n\r\n{"kvs":[{"value":"%"}]}', "coordinator/leader`: its value is not base64"),
        ):
            with socket.create_server(("127.0.0.1", port)) as server:
                server.settimeout(30)
                thread = threading.Thread(target=self.answer, args=(server, answer))
                thread.start()
                assert_refused(self, 2, url, words)
                thread.join()

    def answer(self, server: socket.socket, answer: bytes) -> None:
        """One question."""
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)


if __name__ == "__main__":
    unittest.main()
