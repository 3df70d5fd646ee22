"""Specs in several files: what is taken, where mistakes are shown, and that nothing outside the folder is read."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
from pathlib import Path

from programs import GPT_SPEC, ProgramTest

MAIN = """ucp 1
include "parts/dims.ucp"
layout l {
  "embed" [hidden]
  block "layers.{i: layers}" {
    include "parts/layer.ucp"
    when i == 1 { include "parts/layer.ucp" } else { "other" [4] }
  }
}
"""
DIMS = 'ucp 1\ninclude "more/hidden.ucp"\ndim layers = 2\n'
HIDDEN = "ucp 1\ndim hidden = 8\n"
LAYER = 'ucp 1\nlayout layer {\n  "norm.{weight|bias}" [hidden]\n}\n'


class Include(ProgramTest):
    """Each test breaks one of four files."""

    def setUp(self) -> None:
        """Files that are right, but for a name that two branches give."""
        super().setUp()
        (self.folder / "spec" / "parts" / "more").mkdir(parents=True)
        self.write("main.ucp", MAIN.replace('{ include "parts/layer.ucp" }', '{ "one" [4] }'))
        self.write("parts/dims.ucp", DIMS)
        self.write("parts/more/hidden.ucp", HIDDEN)
        self.write("parts/layer.ucp", LAYER)

    def write(self, name: str, text: str) -> Path:
        """A file in the spec's folder."""
        path = self.folder / "spec" / name
        path.write_text(text)
        return path

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """From the folder above, so that paths have two parts."""
        return self.run_program("ucpc", "check", "spec/main.ucp", *arguments)

    def assert_refused_include(self, *words: str) -> None:
        """Exit code 1, with the kind and these words."""
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in ("[bad-include]", *words):
            self.assertIn(word, result.stderr)

    def test_declarations_and_items(self) -> None:
        """All of it is one spec."""
        result = self.run_program("ucpc", "explain", "spec/main.ucp")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for line in (
            "dim hidden is 8, by its definition",
            "layers.{0-1}.norm.bias  x 2",
            "  by        layer.ucp:3",
            "  by        main.ucp:4",
            "layers.1.one",
            "layers.0.other",
            "7 tensors: 48 parameters",
        ):
            self.assertIn(line, result.stdout)

    def test_a_mistake_in_an_included_file(self) -> None:
        """That file's name and line, and the way to it; in JSON as well."""
        self.write("parts/more/hidden.ucp", "ucp 1\n\n  dim hidden = hiden\n")
        result = self.check()
        self.assertEqual(result.returncode, 1)
        self.assertIn("spec/parts/more/hidden.ucp:3:16: error: there is no dim `hiden`", result.stderr)
        self.assertIn("  dim hidden = hiden\n", result.stderr)
        self.assertIn("spec/parts/dims.ucp:2:9: note: included from here", result.stderr)
        self.assertIn("spec/main.ucp:2:9: note: included from here", result.stderr)
        place = json.loads(self.check("--json").stdout.split('\n{\n  "error"')[0])["diagnostics"][0]["place"]
        self.assertEqual(
            place,
            {
                "file": "spec/parts/more/hidden.ucp",
                "begin": 22,
                "end": 27,
                "line": 3,
                "column": 16,
                "end_line": 3,
                "end_column": 21,
            },
        )

    def test_syntax_in_an_included_file(self) -> None:
        """Found in the same run as the mistakes of others."""
        self.write("parts/layer.ucp", 'ucp 1\nlayout layer {\n  "norm" [hidden\n}\n')
        self.write("parts/dims.ucp", "ucp 1\ndim = 3\n")
        result = self.check()
        self.assertIn("spec/parts/layer.ucp:4:1: error", result.stderr)
        self.assertIn("spec/parts/dims.ucp:2:5: error", result.stderr)

    def test_the_plan_knows_the_included_files(self) -> None:
        """Its hash of the spec changes with a comment in one of them."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        version, rest = GPT_SPEC.read_text().split("ucp 1\n", 1)
        declarations, layout = rest.split("layout ", 1)
        self.write("main.ucp", f'{version}ucp 1\ninclude "parts/dims.ucp"\nlayout {layout}')
        plans = set()
        for comment in ("", "// more\n"):
            self.write("parts/dims.ucp", f"ucp 1\n{declarations}{comment}")
            result = self.run_program(
                "ucpc", "plan", "spec/main.ucp", "--from", source, "--to", "universal", "-o", "plan"
            )
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            plans.add((self.folder / "plan").read_bytes())
        self.assertEqual(len(plans), 2)

    def test_names_given_twice(self) -> None:
        """Both places, which are one line of one file, included twice."""
        self.write("main.ucp", MAIN)
        result = self.check()
        self.assertIn("ambiguous-patterns", result.stderr)
        self.assertIn("spec/main.ucp:7:27: note: included from here", result.stderr)

    def test_paths_that_leave_the_folder(self) -> None:
        """By name, by an absolute path, by a link, by a linked folder: none is read."""
        secret = self.folder / "secret.ucp"
        secret.write_text("ucp 1\ndim secret_of_mine\n")
        (self.folder / "spec" / "link.ucp").symlink_to(secret)
        (self.folder / "spec" / "up").symlink_to(self.folder)
        for path in (
            "../secret.ucp",
            str(secret),
            "parts/../../secret.ucp",
            "link.ucp",
            "up/secret.ucp",
            "",
            "/dev/zero",
        ):
            self.write("main.ucp", f'ucp 1\ninclude "{path}"\nlayout l {{ "x" [1] }}\n')
            result = self.check()
            self.assertEqual(result.returncode, 1, path)
            self.assertIn("[bad-include]", result.stderr, path)
            self.assertNotIn("secret_of_mine", result.stderr)

    def test_a_link_inside_of_the_folder(self) -> None:
        """Is fine."""
        (self.folder / "spec" / "link.ucp").symlink_to(self.folder / "spec" / "parts" / "more" / "hidden.ucp")
        self.write("main.ucp", 'ucp 1\ninclude "link.ucp"\nlayout l { "x" [hidden] }\n')
        self.assertEqual(self.check().returncode, 0)

    def test_what_cannot_be_included(self) -> None:
        """Each with a sentence."""
        self.write("parts/more/hidden.ucp", 'ucp 1\ninclude "../dims.ucp"\n')
        self.assert_refused_include("has no `..`")
        self.write("parts/more/hidden.ucp", 'ucp 1\ninclude "missing.ucp"\n')
        self.assert_refused_include("there is no file `spec/parts/more/missing.ucp`")
        self.write("parts/more/hidden.ucp", 'ucp 1\ninclude "hidden.ucp"\n')
        self.assert_refused_include("`spec/parts/more/hidden.ucp` includes itself")
        self.write("parts/more/hidden.ucp", 'ucp 1\ninclude "."\n')
        self.assert_refused_include("`spec/parts/more/.` is not a regular file")
        os.mkfifo(self.folder / "spec" / "parts" / "more" / "pipe")  # Reading it would wait for ever.
        self.write("parts/more/hidden.ucp", 'ucp 1\ninclude "pipe"\n')
        self.assert_refused_include("`spec/parts/more/pipe` is not a regular file")
        self.write("parts/more/hidden.ucp", HIDDEN)
        self.write("parts/layer.ucp", LAYER + "dim more\n")
        self.assert_refused_include("holds one layout and nothing else", "has 2 declarations")
        self.write("parts/layer.ucp", "ucp 2\n")
        self.assertIn("[unsupported-version]", self.check().stderr)
        (self.folder / "spec" / "parts" / "layer.ucp").write_bytes(b"\xff\x00")
        self.assert_refused_include("NUL")

    def test_too_many_and_too_deep(self) -> None:
        """A bound each, and it ends soon."""
        for level in range(12):
            self.write(f"d{level}.ucp", f'ucp 1\ninclude "d{level + 1}.ucp"\n')
        self.write("d12.ucp", "ucp 1\ndim deep\n")
        self.write("main.ucp", 'ucp 1\ninclude "d0.ucp"\nlayout l { "x" [1] }\n')
        self.assert_refused_include("more than 8 deep")
        for level in range(8):
            self.write(f"w{level}.ucp", "ucp 1\nlayout l {" + f' include "w{level + 1}.ucp"' * 20 + " }\n")
        self.write("w8.ucp", 'ucp 1\nlayout l { "x" [1] }\n')
        self.write("main.ucp", 'ucp 1\nlayout l { include "w0.ucp" }\n')
        self.assert_refused_include("more than 64 files")


if __name__ == "__main__":
    unittest.main()
