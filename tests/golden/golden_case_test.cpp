// The golden files are only as good as their runner: it must see every difference.
#include "tests/golden/golden_case.h"

#include <gmock/gmock.h>

#include <fstream>

#include "compiler/support/error.h"
#include "tests/golden/run_case.h"

namespace ucp::golden {
namespace {

using testing::HasSubstr;

std::string Write(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// The file as it should be, or the complaint.
std::string RunGolden(const std::string& path) {
  auto golden = ReadGoldenCase(path);
  if (!golden) return TakeFailure(golden.takeError()).message;
  auto result = RunCase(*golden);
  return result ? result->text : TakeFailure(result.takeError()).message;
}

constexpr const char* kFailing =
    "// One sentence.\n// phase: parse\nucp 1\nlayout x {\n"
    "  // error: 7..8: expected `[` or `=`, found `b` [unexpected-token]\n  \"a\" b\n}\n";

TEST(GoldenCaseTest, ExpectationsAreWrittenWhereTheyBelong) {
  EXPECT_EQ(RunGolden(Write("fail_a.ucp", "// One sentence.\n// phase: parse\nucp 1\nlayout x {\n  \"a\" b\n}\n")),
            kFailing);
}

TEST(GoldenCaseTest, ARightFileStaysAsItIs) { EXPECT_EQ(RunGolden(Write("fail_b.ucp", kFailing)), kFailing); }

TEST(GoldenCaseTest, WrongExpectationsAndOutputAreReplaced) {
  EXPECT_EQ(
      RunGolden(Write(
          "c.ucp", "// One sentence.\n// phase: parse\n// warning: 1..2: nonsense [x]\nucp 1\n\n// output:\n// no\n")),
      "// One sentence.\n// phase: parse\nucp 1\n\n// output:\n// ucp 1\n");
}

TEST(GoldenCaseTest, ThePrefixAndErrorsComeTogether) {
  EXPECT_THAT(RunGolden(Write("d.ucp", kFailing)), HasSubstr("the prefix `fail_` and errors come together"));
  EXPECT_THAT(RunGolden(Write("fail_e.ucp", "// One sentence.\n// phase: parse\nucp 1\n")), HasSubstr("has 0 errors"));
}

TEST(GoldenCaseTest, AFileSaysWhatItShowsAndWhichPhase) {
  EXPECT_THAT(RunGolden(Write("f.ucp", "ucp 1\n")), HasSubstr("does not begin with a comment of one sentence"));
  EXPECT_THAT(RunGolden(Write("g.ucp", "// One sentence.\nucp 1\n")), HasSubstr("has no line `// phase: NAME`"));
  EXPECT_THAT(RunGolden(Write("h.ucp", "// One sentence.\n// phase: prase\nucp 1\n")), HasSubstr("the phase `prase`"));
}

}  // namespace
}  // namespace ucp::golden
