"""The page of `ucpc explain --html` in a real browser: no errors, a filter that works, the right boxes, inert names."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

from browser import CHROMIUM, Browser

from programs import ProgramTest

CUT = "</script><img sr…document.title=1>&<!--"  # As the map shows it.
HOSTILE = "</script><img src=x onerror=document.title=1>&<!--"
SHAPES = """ucp 1
dim layers
mesh pp, dp, tp
layout shapes {
  "embed" [pad(101, 16 * tp)@tp, 8] at pp.first, pp.last
  block "layers.{i: layers@pp}" {
    "norm" [8]
    "up" [2 * (12@tp), 8]
    "down" [8, 12@tp]
    "bias" [12@tp]
    "experts" [4, 12@tp, 8]
    "hybrid" [12@tp, 8@dp]
    "scalar" []
  }
  "NAME" [8]
}
""".replace("NAME", HOSTILE)
SIDES = ("--from", "deepspeed:pp=2,tp=2,dp=2", "--to", "deepspeed:tp=4")


@unittest.skipIf(CHROMIUM is None and os.environ.get("UCP_REQUIRE_BROWSER") != "1", "NOT RUN: there is no chromium")
class ExplainPage(ProgramTest):
    """One browser for all tests."""

    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        """It takes a second to start."""
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def page(self, *arguments: object, layers: int = 2) -> Path:
        """Writes it."""
        spec = self.folder / "shapes.ucp"
        spec.write_text(SHAPES)
        page = self.folder / "page.html"
        result = self.run_program("ucpc", "explain", spec, *arguments, "--set", f"layers={layers}", "--html", page)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return page

    def boxes(self, side: str) -> int:
        """How many are drawn."""
        count: int = self.browser.run(f"document.querySelectorAll('.{side} .box').length")
        return count

    def texts(self, selector: str) -> list[str]:
        """Of all elements that the selector finds."""
        found: list[str] = self.browser.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")
        return found

    def test_each_tensor_draws_its_boxes(self) -> None:
        """Source beside target; boxes counted by hand."""
        page = self.page(*SIDES)
        for name, source, target in (
            ("embed", 2, 4),
            ("layers.0.norm", 1, 1),
            ("layers.0.up", 4, 8),
            ("layers.0.down", 2, 4),
            ("layers.0.bias", 2, 4),
            ("layers.0.experts", 2, 4),
            ("layers.0.hybrid", 4, 4),
            ("layers.0.scalar", 1, 1),
        ):
            self.browser.open(page, "#" + name)
            self.assertEqual(self.texts("h2"), [name])
            self.assertEqual((self.boxes("source"), self.boxes("target")), (source, target), name)
            self.assertEqual(self.browser.complaints(), [])

    def test_padding_and_local_shapes(self) -> None:
        """101 rows are padded to 128: the last rank carries 27 of padding."""
        self.browser.open(self.page(*SIDES), "#embed")
        self.assertEqual(self.texts(".source .pad + title"), ["tp=1: pad 27"])
        self.assertEqual(self.texts(".source tbody td:nth-child(3)"), ["[64, 8]", "[64, 8]"])
        self.assertEqual(
            self.texts(".target tbody td:nth-child(4)"),
            ["[0..32, 0..8]", "[32..64, 0..8]", "[64..96, 0..8]", "[96..101 pad 27, 0..8]"],
        )

    def test_the_filter_and_the_patterns(self) -> None:
        """Typed and clicked, as a reader does."""
        self.browser.open(self.page(*SIDES))
        self.browser.click("#filter")
        self.browser.type("*.up")
        self.assertEqual(self.texts("#count"), ["2 of 16 tensors"])
        self.assertEqual(self.texts("#rows .row .name"), ["layers.0.up", "layers.1.up"])
        self.browser.click("#rows .row:nth-child(2)")
        self.assertEqual(self.texts("h2"), ["layers.1.up"])
        self.assertEqual(self.boxes("source"), 4)
        self.browser.run("document.querySelector('#filter').value = ''")
        self.browser.click("#kinds button:nth-of-type(2)")
        pattern, count = self.texts("#kinds button[aria-pressed=true]")[0].rsplit(" ", 1)
        self.assertEqual(self.texts("#count"), [f"{count} of 16 tensors"])
        self.assertEqual(set(self.texts("#rows .row > span:nth-child(2)")), {pattern})
        self.assertEqual(self.browser.complaints(), [])

    def test_it_opens_on_a_map_of_the_model(self) -> None:
        """Elements of each rank, and who feeds whom; counted by hand."""
        self.browser.open(self.page(*SIDES))
        self.assertEqual(self.texts("h2"), ["The whole model"])
        self.assertEqual(self.texts(".map.target tbody th"), [CUT, "embed", "layers.0", "layers.1"])
        self.assertEqual(self.texts(".map.source thead th")[1:3], ["pp=0 dp=0 tp=0", "pp=0 dp=0 tp=1"])
        self.assertEqual(self.texts(".map.source tfoot td"), ["895", "679"] * 4)
        self.assertEqual(self.texts(".map.target tfoot td"), ["672", "672", "672", "456"])
        self.assertEqual(self.texts(".map.target tbody tr:nth-child(3) td"), ["204"] * 4)
        taken = self.browser.run(
            "[...document.querySelectorAll('.feeds tbody tr')].map((row) =>"
            "[...row.querySelectorAll('td')].reduce((sum, cell) => sum + Number(cell.textContent), 0))"
        )
        self.assertEqual(taken, [672, 672, 672, 456])
        self.browser.click(".map.source tbody tr:nth-child(3) button")
        self.assertEqual(self.texts("#count"), ["7 of 16 tensors"])
        self.browser.click("#rows .row:nth-child(2)")
        self.assertEqual(len(self.texts(".map")), 0)
        self.browser.click("#whole")
        self.assertEqual(self.texts("h2"), ["The whole model"])
        self.assertEqual(self.browser.complaints(), [])

    def test_layers_that_are_cut_alike_are_one_row(self) -> None:
        """Of 40, those of each stage."""
        self.browser.open(self.page(*SIDES, layers=40))
        rows = self.texts(".map.source tbody th")
        self.assertEqual(rows[2:], ["layers.0 to 19", "layers.20 to 39"])
        self.assertEqual(self.texts(".map.target tbody tr:nth-child(3) td"), ["4080"] * 4)

    def test_partitions_of_a_checkpoint(self) -> None:
        """Masters and both moments, of four bytes each: the two ranks share them out, and no element is on both."""
        source = self.checkpoint("zero1_dp2")
        page = self.folder / "page.html"
        result = self.run_program("ucpc", "explain", "--from", source, "--html", page)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.browser.open(page)
        self.assertEqual(self.texts(".map.partitions thead th")[1:], ["pp=0 tp=0 part=0", "pp=0 tp=0 part=1"])
        shared = self.browser.run(
            "tensors.map((tensor) => bytesOn(tensor)[0] + bytesOn(tensor)[1] - 12 * tensor.elements)"
        )
        self.assertEqual(set(shared), {0})
        self.assertEqual(self.browser.complaints(), [])
        self.browser.open(self.page(*SIDES))
        self.assertEqual(self.texts(".map.partitions"), [])

    def test_a_hostile_name_is_text(self) -> None:
        """It ends no script, makes no element, runs nothing."""
        page = self.page(*SIDES)
        self.assertNotIn("<img", page.read_text())
        self.browser.open(page)
        self.assertEqual(self.texts("#rows .row:first-child .name"), [HOSTILE])
        self.browser.click("#rows .row:first-child")
        self.assertEqual(self.texts("h2"), [HOSTILE])
        self.assertEqual(self.browser.run("[document.images.length, document.scripts.length]"), [0, 2])
        self.assertEqual(self.browser.run("document.title"), "shapes - ucpc explain")
        self.assertEqual(self.browser.complaints(), [])

    def test_the_policy_lets_nothing_else_run(self) -> None:
        """Even if a name did become an element."""
        self.browser.open(self.page(*SIDES))
        self.browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
        self.browser.run("new Promise((done) => setTimeout(done, 200))")
        self.assertEqual(self.browser.run("typeof window.ran"), "undefined")

    def test_twenty_thousand_tensors(self) -> None:
        """Only the rows that are seen exist, and the filter answers at once."""
        self.browser.open(self.page(*SIDES, layers=2860))
        self.assertEqual(self.texts("#count"), ["20,022 of 20,022 tensors"])
        self.assertLess(len(self.texts("#rows .row")), 100)
        self.browser.run("document.querySelector('#list').scrollTop = 1e9")
        self.browser.run("new Promise((done) => setTimeout(done, 100))")
        self.assertIn("layers.2859.up", self.texts("#rows .row .name"))
        took = self.browser.run(
            "(() => { const begin = performance.now();"
            "document.querySelector('#filter').value = '.77.'; refresh();"
            "return performance.now() - begin; })()"
        )
        self.assertEqual(self.texts("#count"), ["7 of 20,022 tensors"])
        self.assertLess(took, 2000)


class WritingThePage(ProgramTest):
    """Without a browser."""

    def test_what_may_be_overwritten(self) -> None:
        """A page of its own, and not a spec."""
        spec = self.folder / "shapes.ucp"
        spec.write_text(SHAPES)
        page = self.folder / "page.html"
        for _ in range(2):
            result = self.run_program("ucpc", "explain", spec, "--set", "layers=1", "--html", page)
            self.assertEqual((result.returncode, result.stdout), (0, f"wrote {page}\n"))
        result = self.run_program("ucpc", "explain", spec, "--set", "layers=1", "--html", spec)
        self.assert_refused(result, 1, "`, which this command uses itself; name another file for the page")
        self.assertEqual(spec.read_text(), SHAPES)
        result = self.run_program("ucpc", "explain", spec, "--set", "layers=1", "--html", self.folder / "no" / "page")
        self.assert_refused(result, 2, "cannot write the page")

    def test_the_page_loads_nothing(self) -> None:
        """One file, no address of any other."""
        spec = self.folder / "shapes.ucp"
        spec.write_text(SHAPES)
        page = self.folder / "page.html"
        self.run_program("ucpc", "explain", spec, "--set", "layers=1", "--html", page)
        text = page.read_text().replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "src=", "@import", "{{"):
            self.assertNotIn(word, text.replace("img src=x", ""), word)
        self.assertIn("default-src 'none'", text)


if __name__ == "__main__":
    unittest.main()
