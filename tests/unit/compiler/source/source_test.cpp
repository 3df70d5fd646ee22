#include "compiler/source/source.h"

#include <gmock/gmock.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::HasSubstr;

Source Spec(std::string text) { return llvm::cantFail(Source::FromText("a.ucp", std::move(text))); }

std::string Refusal(std::string text) {
  auto source = Source::FromText("a.ucp", std::move(text));
  return source ? "accepted" : TakeFailure(source.takeError()).message;
}

TEST(SourceTest, LocatesBytesInLinesAndColumns) {
  Source spec = Spec("ab\n\ncd");
  EXPECT_EQ(spec.Locate(0), (LineColumn{1, 1}));
  EXPECT_EQ(spec.Locate(2), (LineColumn{1, 3}));  // The line break belongs to its line.
  EXPECT_EQ(spec.Locate(3), (LineColumn{2, 1}));
  EXPECT_EQ(spec.Locate(4), (LineColumn{3, 1}));
  EXPECT_EQ(spec.Locate(6), (LineColumn{3, 3}));  // The end of the text.
  EXPECT_EQ(spec.line_count(), 3u);
}

TEST(SourceTest, CountsColumnsInCodePoints) {
  Source spec = Spec("é→😀x");  // 2, 3 and 4 bytes.
  EXPECT_EQ(spec.Locate(2), (LineColumn{1, 2}));
  EXPECT_EQ(spec.Locate(5), (LineColumn{1, 3}));
  EXPECT_EQ(spec.Locate(9), (LineColumn{1, 4}));
}

TEST(SourceTest, LinesHaveNoLineBreaks) {
  Source spec = Spec("ab\r\ncd\n");
  EXPECT_EQ(spec.TextOf(spec.LineAt(0)), "ab");
  EXPECT_EQ(spec.TextOf(spec.LineAt(4)), "cd");
  EXPECT_EQ(spec.TextOf(spec.LineAt(7)), "");
}

TEST(SourceTest, AnIncludedFileHasItsOwnLines) {
  Source spec = Spec("ab\ncd");
  auto begin = spec.Append("b.ucp", "\nxy\n", {3, 5});
  ASSERT_TRUE(bool(begin));
  EXPECT_EQ(*begin, 6u);  // Behind a line break between the files.
  EXPECT_EQ(spec.PathAt(5), spec.path());
  EXPECT_EQ(spec.Locate(5), (LineColumn{2, 3}));
  EXPECT_EQ(spec.PathAt(6), "b.ucp");
  EXPECT_EQ(spec.Locate(6), (LineColumn{1, 1}));
  EXPECT_EQ(spec.Locate(8), (LineColumn{2, 2}));
  EXPECT_EQ(spec.TextOf(spec.LineAt(8)), "xy");
  EXPECT_EQ(spec.TextOf(spec.LineAt(4)), "cd");
  EXPECT_EQ(spec.OffsetInFile(8), 2u);
  EXPECT_EQ(spec.IncludedFrom(8), (SourceRange{3, 5}));
  EXPECT_TRUE(spec.IncludedFrom(0).empty());
  auto again = spec.Append("c.ucp", "z", {7, 8});
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(spec.Locate(*again), (LineColumn{1, 1}));
  EXPECT_EQ(spec.Locate(9), (LineColumn{2, 3}));
}

TEST(SourceTest, TheEmptyTextHasOneLine) {
  Source spec = Spec("");
  EXPECT_EQ(spec.line_count(), 1u);
  EXPECT_EQ(spec.Locate(0), (LineColumn{1, 1}));
}

TEST(SourceTest, CoverHoldsBoth) { EXPECT_EQ(Cover({3, 5}, {1, 4}), (SourceRange{1, 5})); }

TEST(SourceTest, RefusesIllFormedUtf8AndSaysWhere) {
  EXPECT_EQ(Refusal("ok\n\xff\n"), "`a.ucp` is not UTF-8: byte 3, in line 2, is 0xff; save it as UTF-8");
  EXPECT_THAT(Refusal("\xc0\xaf"), HasSubstr("byte 0"));          // Overlong.
  EXPECT_THAT(Refusal("x\xed\xa0\x80"), HasSubstr("byte 1"));     // A surrogate.
  EXPECT_THAT(Refusal("xy\xe2\x82"), HasSubstr("byte 2"));        // Cut off.
  EXPECT_THAT(Refusal("\xf5\x80\x80\x80"), HasSubstr("byte 0"));  // Above U+10FFFF.
}

TEST(SourceTest, RefusesNulAndSaysWhere) {
  EXPECT_EQ(Refusal(std::string("a\nb\0c", 5)), "`a.ucp` has a NUL byte at byte 3, in line 2; is this a spec?");
}

TEST(SourceTest, RefusesWhatIsTooLongForASpec) {
  EXPECT_EQ(Refusal(std::string(kMaxSourceBytes, ' ')), "accepted");
  EXPECT_THAT(Refusal(std::string(kMaxSourceBytes + 1, ' ')),
              HasSubstr("has 16777217 bytes, and a spec has at most 16777216"));
}

TEST(SourceTest, AFileThatIsNotThereIsNamed) {
  auto source = Source::FromFile("/no/such/spec.ucp");
  ASSERT_FALSE(static_cast<bool>(source));
  FailureText failure = TakeFailure(source.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kIo);
  EXPECT_THAT(failure.message, HasSubstr("cannot read the spec `/no/such/spec.ucp`"));
}

}  // namespace
}  // namespace ucp
