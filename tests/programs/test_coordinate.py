"""`ucprun coordinate` with agents of straw: strangers, garbage, full disks and restarts harm no task."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import time
import unittest
import zlib
from contextlib import suppress
from pathlib import Path

from coordinators import Agent, CoordinatorTest
from etcd import free_ports

from programs import PROGRAMS


class Coordinate(CoordinatorTest):
    """Each test has a coordinator at a port of its own."""

    def test_a_wrong_secret_gets_nothing(self) -> None:
        """But a random number; nothing is changed."""
        self.start()
        for secret in (b"", b"a secret that is long enougH"):
            stranger = Agent(self.port, secret)
            self.assertFalse(stranger.is_welcome)
            self.assertEqual(stranger.hear(), {})
            stranger.close()
        result = self.run_program("ucprun", "cluster", "status", "--endpoint", f"127.0.0.1:{self.port}")
        self.assert_refused(result, 2, f"the coordinator at 127.0.0.1:{self.port}: it closes the connection")
        self.wait_for(lambda: "it does not know the secret" in self.log())
        self.assertEqual(self.ask("status").returncode, 0)

    def test_garbage(self) -> None:
        """A port scan, another protocol, a long line and half a greeting; agents with the secret that say nonsense."""
        self.start()
        agents = self.two()
        for garbage in (
            b"",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"[" * 200_000,
            os.urandom(5000) + b"\n",
            b'{"type"',
        ):
            with socket.create_connection(("127.0.0.1", self.port), 20) as stranger, suppress(OSError):
                stranger.sendall(garbage)
        for nonsense in ({"type": "beat"}, {"type": "failed", "epoch": 1, "ends": [{"rank": 1}]}, {"type": "beat\n"}):
            friend = Agent(self.port)
            friend.say(**nonsense)
            if nonsense["type"] == "failed":
                self.assertTrue(friend.hear()["refused"])
            self.assertEqual(friend.hear(), {})  # It connects again, and its job trains on.
            friend.close()
        for agent in agents:
            agent.say(type="beat", epoch=1, step=4)
        self.wait_for(lambda: "t: step 4 has ended" in self.log())
        self.assertNotIn("failure", self.log())

    def test_another_version(self) -> None:
        """Both versions are in the sentence."""
        self.start()
        agent = Agent(self.port, version=2)
        agent.join("n", 1)
        close = agent.hear()
        self.assertEqual(close["type"], "close")
        self.assertRegex(close["reason"], "it speaks version 2 of the protocol, and ucp .* speaks version 1; install")
        agent.close()

    def test_a_thousand_strangers(self) -> None:
        """They wait in vain; agents get in, and beat."""
        self.start()
        agents = self.two()
        strangers = [socket.create_connection(("127.0.0.1", self.port), 20) for _ in range(500)]
        for agent in agents:
            agent.say(type="beat", epoch=1, step=1)
        strangers += [socket.create_connection(("127.0.0.1", self.port), 20) for _ in range(500)]
        third = Agent(self.port)
        self.assertTrue(third.is_welcome)
        for stranger in strangers:
            stranger.close()
        self.wait_for(lambda: "t: step 1 has ended" in self.log())
        self.assertLess(len(self.log().splitlines()), 40)
        third.close()

    def test_many_agents(self) -> None:
        """Of 200 nodes one is lost: the others hear of it, and of the next world."""
        self.start()
        agents = {}
        for number in range(200):
            agents[number] = Agent(self.port)
            agents[number].join(f"n{number:03}", 200)
        for agent in agents.values():
            self.assertEqual(agent.hear()["nodes"], 200)
        agents.pop(7).close()
        until = time.monotonic() + 60
        waiting = dict(agents)
        while waiting:
            self.assertLess(time.monotonic(), until)
            for agent in agents.values():
                agent.say(type="beat", epoch=1)
            time.sleep(1)
            if "lost connection" in self.log():
                for number, agent in list(waiting.items()):
                    self.assertEqual(agent.hear()["type"], "restart")
                    agent.join(f"n{number:03}", 200, epoch=1)
                    del waiting[number]
        for agent in agents.values():
            world = agent.hear()
            self.assertEqual((world["type"], world["epoch"], world["nodes"]), ("world", 2, 199))
            agent.close()

    def test_one_journal(self) -> None:
        """A second coordinator is refused; one after a kill knows the epoch, and repeats nothing."""
        first = self.start("--journal", "journal")
        agents = self.two()
        (other,) = free_ports(1)
        result = self.run_program("ucprun", "coordinate", "--port", other, "--journal", "journal")
        self.assert_refused(result, 1, "`journal` is the journal of another coordinator")
        first.kill()
        first.wait()
        for agent in agents:
            agent.close()
        with (self.folder / "journal").open("ab") as journal:
            journal.write(b'0123abcd {"time":1,"ev')  # Torn.
        self.start("--journal", "journal")
        again = [Agent(self.port), Agent(self.port)]
        for number, agent in enumerate(again):
            agent.say(type="resume", epoch=1, task="t", node=f"n{number}", host="h", port=1, least=1, most=2,
                      rank=number, nodes=2)  # fmt: skip
        again[1].say(type="failed", epoch=1, ends=[{"rank": 1, "exit": -9}])
        for number, agent in enumerate(again):
            self.assertEqual(agent.hear()["type"], "restart")
            agent.join(f"n{number}", 2, epoch=1)
        self.assertEqual([agent.hear()["epoch"] for agent in again], [2, 2])
        events = [json.loads(line.split(" ", 1)[1])["event"] for line in self.journal()]
        self.assertEqual(events, ["epoch", "failure", "epoch"])
        for agent in again:
            agent.close()

    def journal(self) -> list[str]:
        """Its lines."""
        return (self.folder / "journal").read_text().splitlines()

    def test_a_damaged_journal(self) -> None:
        """The line is named, and the file stays."""
        process = self.start("--journal", "journal")
        for agent in self.two():
            agent.close()
        self.ask("drain", "n1")
        self.end(process)
        content = (self.folder / "journal").read_text()
        self.assertGreater(len(self.journal()), 1)
        (self.folder / "journal").write_text(content.replace('"t"', '"u"', 1))
        result = self.run_program("ucprun", "coordinate", "--port", self.port, "--journal", "journal")
        self.assert_refused(result, 2, "`journal`: line 1 is damaged: its checksum is ")

    def test_a_file_of_tasks(self) -> None:
        """It is read before anything is listened to; a task that it does not have is refused."""
        command = ("ucprun", "coordinate", "--port", self.port, "--tasks", "tasks.json")
        self.assert_refused(self.run_program(*command), 2, "tasks.json")
        (self.folder / "tasks.json").write_text('{"nodes": 1}')
        self.assert_refused(self.run_program(*command), 1, "`tasks.json`: ")
        task = {"name": "t", "speeds": {"1": 1.0}, "restart_seconds": 1}
        cluster = {"nodes": 1, "node_mtbf_hours": 1, "network": "1GB/s", "tasks": [task]}
        (self.folder / "tasks.json").write_text(json.dumps(cluster))
        self.start("--tasks", "tasks.json")
        agent = Agent(self.port)
        agent.join("n1", 1)
        stranger = Agent(self.port)
        stranger.join("n2", 1, task="u")
        self.assertIn("task `u` is not in the file of tasks", stranger.hear()["reason"])
        (status,) = json.loads(self.ask("status", "--json").stdout)["tasks"]
        self.assertEqual((status["task"], status["share"], status["nodes"]), ("t", None, []))  # It plans after 10 s.
        agent.close()
        stranger.close()

    def test_a_long_log(self) -> None:
        """It comes in several answers, since it has more bytes than the coordinator keeps for one connection."""
        nodes = [f"a-node-with-a-long-name-{number:04}" for number in range(1000)]
        with (self.folder / "journal").open("w") as journal:
            for epoch in range(1, 801):
                entry = json.dumps({"time": 1, "event": "epoch", "task": "t", "epoch": epoch, "nodes": nodes,
                                    "least": 1, "most": 1000})  # fmt: skip
                journal.write(f"{zlib.crc32(entry.encode()):08x} {entry}\n")
        self.assertGreater((self.folder / "journal").stat().st_size, 1 << 24)
        self.start("--journal", "journal")
        entries = json.loads(self.ask("log", "--json").stdout)["entries"]
        self.assertEqual([entry["epoch"] for entry in entries], list(range(1, 801)))

    def test_a_full_disk(self) -> None:
        """It decides nothing more, and says so; the journal can be read."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

        log = Path(self.folder / "log")
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(PROGRAMS / "ucprun"), "coordinate", "--port", str(self.port), "--secret-file", str(self.secret),
                 "--journal", "journal"],
                cwd=self.folder, stdout=subprocess.DEVNULL, stderr=output, text=True, preexec_fn=limit,
            )  # fmt: skip
        self.addCleanup(self.end, process)
        agents = []
        epoch = 0
        self.wait_for(self.listens)
        with suppress(OSError, KeyError, ValueError):
            agents = [Agent(self.port)]
            for epoch in range(20):
                agents[0].join("n", 1, epoch)
                self.assertEqual(agents[0].hear()["type"], "world")
                agents[0].say(type="beat", epoch=epoch + 1, step=10 * epoch)
                agents[0].say(type="failed", epoch=epoch + 1, ends=[{"rank": 0, "exit": -9}])
                self.assertEqual(agents[0].hear()["type"], "restart")
        self.assertEqual(process.wait(20), 2)
        self.assertIn("tasks go on without a coordinator: cannot write `journal`: file too large", log.read_text())
        agents[0].close()
        self.start("--journal", "journal")
        self.assertEqual(self.ask("status").returncode, 0)

    def listens(self) -> bool:
        """At its port."""
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def test_a_stopped_coordinator_loses_nobody(self) -> None:
        """While it did not listen, nobody was silent."""
        process = self.start()
        agents = self.two()
        for agent in agents:
            agent.say(type="beat", epoch=1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(8)
        process.send_signal(signal.SIGCONT)
        for _ in range(3):
            for agent in agents:
                agent.say(type="beat", epoch=1)
            time.sleep(1)
        self.assertNotIn("lost", self.log())

    def test_the_command_for_a_lost_node(self) -> None:
        """It is given the node, the task and the reason, whatever the coordinator's own node is."""
        environment = os.environ | {"UCP_NODE": "own"}
        self.start("--on-node-lost", 'echo "$UCP_NODE $UCP_TASK $UCP_REASON" >> lost', env=environment)
        agents = self.two()
        lost = self.folder / "lost"
        while not lost.exists() or lost.read_text() == "":
            agents[0].say(type="beat", epoch=1)
            time.sleep(0.5)
        self.assertEqual(lost.read_text(), "n1 t nothing is heard of it for 5 s\n")

    def test_what_people_see(self) -> None:
        """Status, log, and refusals in one sentence."""
        self.start()
        agents = self.two()
        for agent in agents:
            agent.say(type="beat", epoch=1, step=3)
        self.wait_for(lambda: "step 3" in self.log())
        status = self.ask("status").stdout
        self.assertRegex(status, r"\nt +runs +1 +2 of 1:2 +- +3 +-\n")
        self.assertRegex(status, r"\nn1 +works +t +-\n")
        self.assertEqual(self.ask("drain", "n1").returncode, 0)
        self.assertRegex(self.ask("status").stdout, r"\nn1 +works +t +a person asked for it\n")
        self.assertRegex(self.ask("log").stdout, r"Z  t: n1 is drained: a person asked for it\n$")
        self.assert_refused(self.ask("drain", "n7"), 1, "there is no node `n7`")
        result = self.run_program("ucprun", "cluster", "status", "--endpoint", "nowhere")
        self.assert_refused(result, 1, "`nowhere` is not an endpoint such as head:29411")
        self.secret.write_text("short")
        self.assert_refused(self.ask("status"), 1, "the secret has 5 bytes, and needs 16")


if __name__ == "__main__":
    unittest.main()
