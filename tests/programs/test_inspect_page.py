"""The page of `ucprun inspect --html` in a real browser: the right bytes on the right ranks, and inert names."""

from __future__ import annotations

import json
import os
import unittest
from pathlib import Path

from browser import CHROMIUM, Browser

from programs import ProgramTest


@unittest.skipIf(CHROMIUM is None and os.environ.get("UCP_REQUIRE_BROWSER") != "1", "NOT RUN: there is no chromium")
class InspectPage(ProgramTest):
    """One browser for all tests."""

    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        """It takes a second to start."""
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, source: Path, *arguments: object) -> None:
        """Writes the page of a checkpoint and opens it."""
        page = self.folder / "page.html"
        result = self.run_program("ucprun", "inspect", source, *arguments, "--html", page)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, f"wrote {page}\n", ""))
        self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])

    def texts(self, selector: str) -> list[str]:
        """Of all elements that the selector finds."""
        found: list[str] = self.browser.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")
        return found

    def held(self) -> dict[str, list[int]]:
        """Bytes of each tensor on each rank."""
        found: dict[str, list[int]] = self.browser.run(
            "Object.fromEntries(tensors.map((tensor) => [tensor.name, bytesOn(tensor)]))"
        )
        return found

    def test_each_rank_holds_its_partition(self) -> None:
        """ZeRO 1 on two ranks: fp32 master, exp_avg and exp_avg_sq are shared out, the fp16 weight is on both."""
        source = self.checkpoint("zero1_dp2")
        self.open(source)
        self.assertEqual(self.texts("h2"), ["The whole checkpoint"])
        self.assertEqual(self.texts(".map thead th")[1:], ["pp=0 tp=0 part=0", "pp=0 tp=0 part=1"])
        report = json.loads(self.run_program("ucprun", "inspect", source, "--json").stdout)
        held = self.held()
        self.assertEqual(sorted(held), sorted(tensor["name"] for tensor in report["tensors"]))
        for tensor in report["tensors"]:
            weight = 2
            for length in tensor["shape"]:
                weight *= length
            self.assertEqual(tensor["states"]["weight"], "float16")
            self.assertEqual(sum(held[tensor["name"]]), tensor["bytes"] + weight, tensor["name"])
        self.assertIn([weight, tensor["bytes"]], [sorted(parts) for parts in held.values()])

    def test_stages_and_tensor_parallel_ranks(self) -> None:
        """A pipeline of two stages: a layer is on the ranks of its own."""
        self.open(self.checkpoint("gpt_pp2_tp2_dp2"))
        ranks = self.texts(".map thead th")[1:]
        self.assertEqual(ranks, [f"pp={p} tp={t} part={d}" for p in (0, 1) for t in (0, 1) for d in (0, 1)])
        for name, parts in self.held().items():
            stages = [sum(parts[:4]) > 0, sum(parts[4:]) > 0]
            number = name.split(".")[0]
            if number in ("3", "4"):
                self.assertEqual(stages, [True, False], name)
            if number in ("5", "6"):
                self.assertEqual(stages, [False, True], name)

    def test_the_list_and_one_tensor(self) -> None:
        """Filtered, clicked, and back to the map."""
        self.open(self.checkpoint("zero1_dp2"))
        self.browser.click(".map tbody tr:nth-child(2) button")
        self.assertRegex(self.texts("#count")[0], r"^\d+ of 17 tensors$")
        self.browser.click("#rows .row:first-child")
        self.assertEqual(self.texts("h2"), self.texts("#rows .row:first-child .name"))
        self.assertEqual(self.texts(".holders th"), ["Ranks", "Bytes"])
        self.browser.click("#whole")
        self.assertEqual(self.texts("h2"), ["The whole checkpoint"])
        self.assertEqual(self.browser.complaints(), [])

    def test_whole_tensors_are_one_column(self) -> None:
        """Of a folder for any ranks."""
        self.run_program("ucprun", "convert", self.checkpoint("zero1_dp2"), self.out, "--to", "universal")
        self.open(self.out)
        self.assertEqual(self.texts(".map thead th")[1:], ["every rank"])
        self.assertIn("The folder holds whole tensors, for any ranks.", self.texts(".note"))

    def test_it_fits_a_telephone(self) -> None:
        """Nothing is wider than the window but what scrolls by itself."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        self.addCleanup(self.browser.ask, "Emulation.clearDeviceMetricsOverride")
        for wide in (1400, 420):
            self.browser.ask(
                "Emulation.setDeviceMetricsOverride", width=wide, height=800, deviceScaleFactor=1, mobile=False
            )
            self.open(source)
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), wide)


class WritingThePage(ProgramTest):
    """Without a browser."""

    def test_what_may_be_overwritten(self) -> None:
        """A page of its own, and no page of `ucpc explain`."""
        source = self.checkpoint("zero1_dp2")
        page = self.folder / "page.html"
        for _ in range(2):
            result = self.run_program("ucprun", "inspect", source, "--html", page)
            self.assertEqual((result.returncode, result.stdout), (0, f"wrote {page}\n"))
        page.write_text("<!doctype html>\n<!-- ucpc explain -->\n")
        result = self.run_program("ucprun", "inspect", source, "--html", page)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--force", result.stderr)
        self.assertEqual(page.read_text(), "<!doctype html>\n<!-- ucpc explain -->\n")

    def test_a_hostile_name_is_text(self) -> None:
        """It does not end the script that holds it."""
        name = "</script><img src=x onerror=document.title=1>"
        header = json.dumps({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        folder = self.folder / "hub"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
        page = self.folder / "page.html"
        result = self.run_program("ucprun", "inspect", folder, "--html", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("<img", page.read_text())
        self.assertIn("default-src 'none'", page.read_text())


if __name__ == "__main__":
    unittest.main()
