"""The rules fail when they should."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path

import check_commits
import check_editors
import check_includes
import check_libraries
import check_markdown
import check_prose
import check_sources


class IncludeRules(unittest.TestCase):
    def includes(self, source: str, header: str) -> bool:
        return check_includes.wrong_include(Path(source), header) is None

    def test_own_folder_and_folders_of_the_row(self) -> None:
        self.assertTrue(self.includes("compiler/plan/steps.h", "compiler/plan/plan.h"))
        self.assertTrue(self.includes("compiler/plan/plan.h", "compiler/layout/mesh.h"))
        self.assertTrue(self.includes("compiler/plan/plan.h", "vector"))

    def test_against_the_order_of_the_data(self) -> None:
        self.assertFalse(self.includes("compiler/layout/mesh.h", "compiler/plan/plan.h"))
        self.assertFalse(self.includes("runtime/executor/execute.cpp", "compiler/planner/planner.h"))

    def test_the_compiler_does_not_look_at_the_runtime(self) -> None:
        self.assertFalse(self.includes("compiler/compile/compile.cpp", "runtime/storage/file_system.h"))
        for folder, row in check_includes.ALLOWED.items():
            if folder.startswith("compiler/"):
                self.assertEqual([other for other in row if other.startswith("runtime/")], [], folder)

    def test_formats_do_not_look_at_each_other(self) -> None:
        header = "compiler/formats/deepspeed/universal/universal.h"
        self.assertFalse(self.includes("compiler/formats/deepspeed/native/read/describe.cpp", header))
        self.assertFalse(self.includes("compiler/formats/facts.cpp", header))
        self.assertTrue(self.includes("compiler/formats/format_list.cpp", header))

    def test_third_party_headers_stay_inside(self) -> None:
        self.assertFalse(self.includes("compiler/check/check_spec.cpp", "antlr4-runtime.h"))
        self.assertTrue(self.includes("compiler/parse/parse.cpp", "antlr4-runtime.h"))

    def test_a_new_folder_needs_a_row(self) -> None:
        self.assertFalse(self.includes("compiler/helpers/helper.cpp", "vector"))


class ProseRules(unittest.TestCase):
    def found(self, text: str) -> int:
        return sum(len(pattern.findall(text)) for pattern in check_prose.PATTERNS.values())

    def test_phrases(self) -> None:
        for text in ("What is written is put together.", "It ends. Who tries is refused.", "`x` is no checkpoint",
                     "Progress is told here", "a run that is gone on with", "the files are written, too"):  # fmt: skip
            self.assertEqual(self.found(text), 1, text)
        for text in ("What is written?", "there is no folder", "it is no longer there", "too little memory",
                     "tell what it said", "`x` is not a checkpoint"):  # fmt: skip
            self.assertEqual(self.found(text), 0, text)


    def test_texts(self) -> None:
        cpp = set(check_prose.texts_of_cpp('// One\n// sentence.\nFail("four words of text", "short");  // Behind.\n'))
        comments = {("comments", "One sentence."), ("comments", "Behind.")}
        self.assertEqual(cpp, comments | {("messages", "four words of text")})
        python = list(check_prose.texts_of_python('"""A\npage."""\nx = f"four words of {x}"  # Behind.\n'))
        self.assertIn(("comments", "A page."), python)
        self.assertIn(("comments", "Behind."), python)
        self.assertEqual(list(check_prose.texts_of_page("One\nsentence.\n")), [("docs", "One sentence.")])


class CommitRules(unittest.TestCase):
    def test_titles(self) -> None:
        for title in ("commit: sync folders before the rename", "README: lead with what a user types",
                      "messages, comments: say it plainly", "tests/bench: compare two builds"):  # fmt: skip
            self.assertEqual(list(check_commits.problems_of("0123456", title)), [], title)
        for title in ("Sync folders before the rename", "commit: ", "commit: sync.", "commit: " + "x" * 65, ": sync"):
            self.assertNotEqual(list(check_commits.problems_of("0123456", title)), [], title)

    @unittest.skipUnless(shutil.which("git"), "git is not here")
    def test_commits_since_a_base(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(check_commits.titles_since(folder, "HEAD"))
            author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
            check_commits.git(folder, "init", "--quiet")
            for title in ("first", "area: second", "Third"):
                check_commits.git(folder, *author, "commit", "--quiet", "--allow-empty", "--message", title)
            base = (check_commits.git(folder, "rev-parse", "HEAD~2") or "").strip()
            titles = [title for _, title in check_commits.titles_since(folder, base) or []]
            self.assertEqual(titles, ["Third", "area: second"])
            self.assertIsNone(check_commits.titles_since(folder, "0" * 40))


class LibraryRules(unittest.TestCase):
    def problems(self, source: str) -> int:
        return len(list(check_libraries.problems_of("runtime/load/load.cpp", source)))

    def test_printing_and_exiting(self) -> None:
        for line in ('std::fputs("x", f);', "fflush(stdout);", "::_exit(1);", 'fmt::print("x");'):
            self.assertEqual(self.problems(line), 1, line)
        self.assertEqual(self.problems('// printf() and stdout\nauto text = "stderr"; int my_stdout;'), 0)

    def test_options_in_texts(self) -> None:
        self.assertEqual(self.problems('Fail("leave out --resume to begin again");'), 1)
        self.assertEqual(self.problems('Fail("pass --set or --spec=x");'), 2)
        self.assertEqual(self.problems('--count; Fail("{} to begin again", Name());  // --resume'), 0)


class MarkdownRules(unittest.TestCase):
    def problems(self, text: str) -> int:
        return len(list(check_markdown.problems_of("page.md", text)))

    def test_long_lines(self) -> None:
        self.assertEqual(self.problems("word " * 24 + "\n"), 0)
        self.assertEqual(self.problems("word " * 25 + "\n"), 1)
        self.assertEqual(self.problems("- word\n- " + "word " * 25 + "\n"), 1)
        for line in ("| " + "word " * 25, "# " + "word " * 25, "x" * 121, "`" + "code " * 25 + "`"):
            self.assertEqual(self.problems(f"{line}\n"), 0, line)
        self.assertEqual(self.problems("```\n" + "word " * 25 + "\n```\n"), 0)

    def test_wrapping(self) -> None:
        page = check_markdown.wrapped_page("1. " + "word " * 23 + "`a b` two\n   more\n\nshort\nlines\n")
        self.assertEqual(page, "1. " + "word " * 22 + "word\n   `a b` two more\n\nshort\nlines\n")
        marks = "x" * 118 + " - and"  # A line that begins with a dash would be an item of a list.
        self.assertEqual(check_markdown.wrapped_page(marks + "\n"), "x" * 118 + " -\nand\n")


class RowRules(unittest.TestCase):
    def test_long_rows(self) -> None:
        most = {f"compiler/f{i}" for i in range(check_includes.MOST_OTHERS)}
        self.assertEqual(list(check_includes.long_rows({"compiler/ast": most})), [])
        self.assertEqual(len(list(check_includes.long_rows({"compiler/ast": most | {"compiler/more"}}))), 1)
        self.assertEqual(list(check_includes.long_rows({"runtime/driver": most | {"compiler/more"}})), [])


class SourceRules(unittest.TestCase):
    def problems(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(check_sources.problems(root))

    def test_a_good_folder(self) -> None:
        files = {
            "compiler/ast/CMakeLists.txt": "ucp_library(ucp_ast\n  SOURCES print.cpp)",
            "compiler/ast/print.cpp": "int x;\n",
            "compiler/ast/print.h": "// Prints.\n#pragma once\n",
        }
        self.assertEqual(self.problems(files), [])

    def test_a_source_that_is_not_built(self) -> None:
        files = {
            "compiler/ast/CMakeLists.txt": "ucp_library(ucp_ast SOURCES fingerprint.cpp)",
            "compiler/ast/print.cpp": "int x;\n",
        }
        self.assertEqual(len(self.problems(files)), 1)

    def test_a_header_without_a_word(self) -> None:
        self.assertEqual(len(self.problems({"runtime/storage/file.h": "#pragma once\n"})), 2)

    def test_a_long_file(self) -> None:
        long = "// Long.\n#pragma once\n" + "\n" * check_sources.MOST_LINES
        self.assertEqual(len(self.problems({"runtime/storage/file.h": long})), 1)

    def test_a_full_folder(self) -> None:
        names = [f"f{i}.cpp" for i in range(check_sources.MOST_SOURCES)]
        files = {f"compiler/ast/{name}": "int x;\n" for name in names}
        files["compiler/ast/CMakeLists.txt"] = f"ucp_library(ucp_ast SOURCES {' '.join(names)} more.cpp below/f.cpp)"
        files["compiler/ast/below/f.cpp"] = "int x;\n"
        self.assertEqual(self.problems(files), [])
        files["compiler/ast/more.cpp"] = "int x;\n"
        self.assertEqual(len(self.problems(files)), 1)


class EditorRules(unittest.TestCase):
    def test_words_of_the_syntax_files(self) -> None:
        self.assertEqual(check_editors.keywords("DIM: 'dim';\nNAME: [a-z];\nEQUAL: '==';\n"), {"dim"})
        words = check_editors.vim_words("syntax keyword a dim at\nsyntax keyword b TODO contained\n")
        self.assertEqual(words, {"dim", "at"})
        self.assertEqual(list(check_editors.differences("f", {"dim", "at"}, {"dim", "to"})),
                         ["f: lacks `at`", "f: has `to`, which the language does not"])


if __name__ == "__main__":
    unittest.main()
