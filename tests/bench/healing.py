"""healing.py [--write]: Unicron's figures 6, 9, 10c and 11, from `ucprun cluster plan`, `ucprun simulate`, `task_pace`.

Prints a table with the paper's numbers beside ours. With --write it goes into docs/healing.md, and the pictures beside
it are drawn (needs matplotlib). Nothing is measured: speeds, failures and repairs are made up here, with fixed seeds.
UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- table of healing.py -->\n", "<!-- end of table -->\n"
NODES = 16
CONFIGURATIONS = (1, 2, 3, 4, 6, 8, 12, 16)
# Of a node of 8 GPUs, and how the speed grows with the nodes: small models grow worse. By billions of parameters.
NODE_FLOPS = 8 * 1.4e14
GROWTH = {1.3: 0.90, 7: 0.95, 13: 0.97}
LEAST = {1.3: 1, 7: 1, 13: 2}
SEVENS, MIX = [7.0] * 6, [1.3, 1.3, 1.3, 7.0, 7.0, 13.0]
RISING = [0.5, 0.8, 1.1, 1.4, 1.7, 2.0]
# Table 3.
CASES = [(SEVENS, [1.0] * 6), (MIX, [1.0] * 6), (SEVENS, RISING), (MIX, RISING), (MIX, RISING[::-1])]
POLICIES = {"ucp": "-", "own": "--", "restart": "-.", "wait": ":"}
TRACES = 20


@dataclass(frozen=True)
class Failures:
    """How many, over how many days, and for how many hours a lost node is away."""

    days: int
    lost: int
    others: int
    repair: tuple[float, float]


TRACE_A = Failures(56, 10, 33, (24, 168))
TRACE_B = Failures(7, 26, 80, (24 / 20, 168 / 20))
TRACE_B_LONGER = Failures(7, 26, 80, (3, 21))


def cluster(sizes: list[float], weights: list[float], mtbf_hours: float = 1600, nodes: int = NODES) -> dict[str, Any]:
    tasks = [
        {
            "name": f"gpt-{size}b-{i}", "weight": weight, "min_nodes": LEAST[size], "restart_seconds": 30,
            "state_bytes": size * 1e9 * 16,
            "speeds": {str(k): NODE_FLOPS * k ** GROWTH[size] for k in CONFIGURATIONS if k >= LEAST[size]},
        }
        for i, (size, weight) in enumerate(zip(sizes, weights, strict=True))
    ]  # fmt: skip
    return {"nodes": nodes, "node_mtbf_hours": mtbf_hours, "network": "100GB/s", "tasks": tasks}


def trace(failures: Failures, seed: int) -> dict[str, Any]:
    drawn = random.Random(seed)
    rows = []
    for i in range(failures.lost + failures.others):
        kind = drawn.choice(["process exited", "other software error", "hang"])
        rows.append({
            "hours": drawn.uniform(0, failures.days * 24), "node": drawn.randrange(NODES),
            "failure": "lost connection" if i < failures.lost else kind,
            "repair_hours": drawn.uniform(*failures.repair),
        })  # fmt: skip
    return {"hours": failures.days * 24, "failures": sorted(rows, key=lambda row: float(row["hours"]))}


def ucprun(*command: str, **files: dict[str, Any]) -> dict[str, Any]:
    """Its report about files, whose names stand in the command."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(json.dumps(content))
        program = Path(os.environ["UCP_BIN"]).resolve() / "ucprun"
        done = subprocess.run([program, *command, "--json"], cwd=folder, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def simulate(tasks: dict[str, Any], failures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    report = ucprun("simulate", "--tasks", "tasks", "--trace", "trace", tasks=tasks, trace=failures)
    return {policy["policy"]: policy for policy in report["policies"]}


def simulate_case_5(failures: Failures, seed: int) -> dict[str, dict[str, Any]]:
    mtbf_hours = NODES * failures.days * 24 / failures.lost
    return simulate(cluster(*CASES[4], mtbf_hours), trace(failures, seed))


def gains(failures: Failures) -> dict[str, str]:
    """How much more `ucp` gets done than each other policy: mean, least and most of the traces."""
    runs = [simulate_case_5(failures, seed) for seed in range(TRACES)]
    ratios = {name: [run["ucp"]["flop"] / run[name]["flop"] for run in runs] for name in POLICIES}
    return {name: f"{mean(each):.2f} ({min(each):.2f} to {max(each):.2f})" for name, each in ratios.items()}


def shares(parts: list[float], tasks: list[dict[str, Any]]) -> list[int]:
    """All nodes, in proportion to the parts, and each task's least."""
    wanted = [NODES * part / sum(parts) for part in parts]
    nodes = [max(int(wish), task["min_nodes"]) for wish, task in zip(wanted, tasks, strict=True)]
    while sum(nodes) != NODES:
        lacking = [wish - have for wish, have in zip(wanted, nodes, strict=True)]
        if sum(nodes) < NODES:
            nodes[lacking.index(max(lacking))] += 1
        else:
            nodes[lacking.index(min(lacking))] -= 1
    return nodes


def worth(tasks: list[dict[str, Any]], nodes: list[int]) -> float:
    return sum(
        task["weight"] * max((speed for k, speed in task["speeds"].items() if int(k) <= have), default=0)
        for task, have in zip(tasks, nodes, strict=True)
    )


def worths(case: int) -> dict[str, float]:
    """The weighted FLOP/s of the plan and of three fixed allocations."""
    of_case = cluster(*CASES[case])
    tasks = of_case["tasks"]
    planned = ucprun("cluster", "plan", "tasks", tasks=of_case)["plans"][0]
    return {
        "planned": planned["flops"],
        "equally": worth(tasks, shares([1] * len(tasks), tasks)),
        "by weight": worth(tasks, shares(CASES[case][1], tasks)),
        "by size": worth(tasks, shares(CASES[case][0], tasks)),
    }


def transition(nodes: int) -> dict[str, float]:
    """For how many seconds a job of 7B parameters is stopped after it lost one of its nodes."""
    failure = {"hours": 10, "node": 0, "failure": "lost connection", "repair_hours": 1000}
    runs = simulate(cluster([7.0], [1.0], nodes=nodes), {"hours": 20, "failures": [failure]})
    return {policy: run["stopped_seconds"] for policy, run in runs.items()}


def iterations() -> list[tuple[float, float, str]]:
    """Seconds, when it would have been a hang, and the pace: a switch is off from 200 to 350, and 500 hangs."""
    drawn = random.Random(6)
    events = ["iteration 900"]
    for i in range(1, 500):
        if i % 100 == 0:
            events.append(f"evaluation {drawn.gauss(400, 40)}")
        events.append(f"iteration {drawn.gauss(40, 4) * (1.3 if 200 <= i < 350 else 1)}")
    events.append("iteration 1800")
    program = Path(os.environ["UCP_BIN"]).resolve() / "task_pace"
    done = subprocess.run([program], input="\n".join(events), check=True, capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(float(seconds), float(most), pace) for seconds, most, pace in lines]


def paces() -> str:
    """Between which iterations the task is slow, and how a hang is found."""
    of_all = iterations()
    slow = [i for i, (_, _, pace) in enumerate(of_all) if pace == "slow"]
    hangs = [i for i, (_, _, pace) in enumerate(of_all) if pace == "hang"]
    if hangs != [len(of_all) - 1] or len(slow) != slow[-1] - slow[0] + 1:
        raise SystemExit(f"hangs at {hangs}, slow at {slow}")
    return f"slow from {slow[0]} to {slow[-1]}, hang after {of_all[-1][1]:.0f} s"


def rows() -> list[tuple[str, str, str]]:
    """Claim, the paper's number, ours."""
    stops = [transition(nodes) for nodes in (2, 4, 8, 16)]
    cases = [worths(case) for case in range(len(CASES))]
    best = [of["planned"] / max(of["equally"], of["by weight"], of["by size"]) for of in cases]
    a, b, longer = gains(TRACE_A), gains(TRACE_B), gains(TRACE_B_LONGER)
    return [
        ("Figure 6: iterations of 40 s, 1.3 x from 200 to 350; 500 hangs", "slow at 1.1 x, hang at 3 x", paces()),
        ("Figure 9: stopped after a lost node, 7B, 2, 4, 8, 16 nodes", "short, and nearly constant",
         ", ".join(f"{stop['ucp']:.0f} s" for stop in stops)),
        ("… by hand, from storage", "long", ", ".join(f"{stop['restart']:.0f} s" for stop in stops)),
        ("Figure 10c: cases 1 to 5, the plan against the best fixed allocation", "at least 1",
         ", ".join(f"{ratio:.2f}" for ratio in best)),
        ("Figure 11, trace a: against `wait`", "1.2 (Megatron)", a["wait"]),
        ("… against `restart`", "", a["restart"]),
        ("… against an elastic job, `own`", "3.7 (Oobleck), 4.6 (Bamboo), 4.8 (Varuna)", a["own"]),
        ("Trace b, repairs of 1.2 to 8.4 hours: against `wait`", "1.9 (Megatron)", b["wait"]),
        ("… repairs of 3 to 21 hours", "", longer["wait"]),
        ("… against `restart`, repairs of 1.2 to 8.4 hours", "", b["restart"]),
        ("… against an elastic job, `own`", "3.8 (Oobleck), 4.8 (Bamboo), 5.8 (Varuna)", b["own"]),
    ]  # fmt: skip


def table() -> str:
    lines = ["| | the paper | simulated here |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows()]) + "\n"


def save(figure: Any, name: str) -> None:
    (DOCS / "healing").mkdir(exist_ok=True)
    figure.savefig(DOCS / "healing" / name, bbox_inches="tight", metadata={"Date": None})


def draw_iterations() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3))
    of_all = iterations()[:-1]
    axes.plot([seconds for seconds, _, _ in of_all], ".", markersize=2, label="an iteration")
    slow = [(i, seconds) for i, (seconds, _, pace) in enumerate(of_all) if pace == "slow"]
    axes.plot(*zip(*slow, strict=True), ".", markersize=2, label="… that counts as slow")
    axes.plot([most for _, most, _ in of_all], "--", linewidth=0.8, label="hang")
    axes.set(xlabel="iteration", ylabel="seconds", ylim=(0, 250), title="Statistics of iterations (figure 6)")
    axes.legend(fontsize="small")
    save(figure, "iterations.svg")


def draw_transition() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3))
    nodes = [2, 3, 4, 6, 8, 12, 16]
    stops = [transition(number) for number in nodes]
    for policy in ("ucp", "restart"):
        axes.plot(nodes, [stop[policy] for stop in stops], POLICIES[policy], marker="o", label=policy)
    axes.set(xlabel="nodes", ylabel="seconds", yscale="log", title="Stopped after a lost node, 7B (figure 9)")
    axes.legend()
    save(figure, "transition.svg")


def draw_cases() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3))
    cases = [worths(case) for case in range(len(CASES))]
    for i, name in enumerate(cases[0]):
        places = [case + 0.2 * i for case in range(1, len(CASES) + 1)]
        axes.bar(places, [of[name] / 1e15 for of in cases], 0.18, label=name)
    axes.set(xlabel="case", ylabel="weighted PFLOP/s", title="Five clusters (figure 10c)")
    axes.set_xticks([case + 0.3 for case in range(1, len(CASES) + 1)], [str(1 + case) for case in range(len(CASES))])
    axes.legend(ncols=4, loc="lower center", fontsize="small")
    save(figure, "cases.svg")


def accumulated(moments: list[list[float]], end: float) -> tuple[list[float], list[float]]:
    times, sums = [0.0], [0.0]
    for (at, _, flops), after in zip(moments, [*(row[0] for row in moments[1:]), end], strict=True):
        times.append(after)
        sums.append(sums[-1] + flops * (after - at))
    return times, sums


def draw_traces() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 2, figsize=(10, 8), sharex="col")
    for column, (name, failures) in enumerate((("a", TRACE_A), ("b", TRACE_B))):
        end = failures.days * 86400
        for policy, run in simulate_case_5(failures, 0).items():
            moments = run["moments"]
            days = [moment[0] / 86400 for moment in moments]
            if policy == "ucp":
                axes[0][column].step(days, [moment[1] for moment in moments], where="post", color="black")
            flops = [moment[2] / 1e15 for moment in moments]
            axes[1][column].step(days, flops, POLICIES[policy], where="post", linewidth=0.8, label=policy)
            times, sums = accumulated(moments, end)
            axes[2][column].plot([at / 86400 for at in times], [flop / 1e21 for flop in sums], POLICIES[policy])
        axes[0][column].set(title=f"trace {name} (figure 11)", ylabel="nodes that work")
        axes[1][column].set(ylabel="weighted PFLOP/s")
        axes[2][column].set(ylabel="weighted ZFLOP so far", xlabel="days")
        axes[1][column].legend(loc="lower left", fontsize="small")
    save(figure, "traces.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Unicron's figures 6, 9, 10c and 11, simulated.")
    parser.add_argument("--write", action="store_true", help="write the table and the pictures into docs")
    if not parser.parse_args().write:
        print(table(), end="")
        return
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "ucp"  # The same picture at each run.
    page = DOCS / "healing.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    draw_iterations()
    draw_transition()
    draw_cases()
    draw_traces()


if __name__ == "__main__":
    main()
