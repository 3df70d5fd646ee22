#include "compiler/diagnostics/diagnostics.h"

#include <gmock/gmock.h>

#include <cctype>
#include <set>

namespace ucp {
namespace {

Diagnostic At(SourceRange range, std::string message) {
  return {.kind = DiagnosticKind::kUnexpectedToken, .place = range, .message = std::move(message)};
}

std::vector<std::string> Messages(const DiagnosticSink& sink) {
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : sink.Sorted()) messages.push_back(diagnostic.message);
  return messages;
}

TEST(DiagnosticKindsTest, TheTableIsInTheOrderOfTheEnumeration) {
  for (std::size_t i = 0; i < AllDiagnosticKinds().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(AllDiagnosticKinds()[i].kind), i);
  }
}

TEST(DiagnosticKindsTest, NamesAreKebabCaseAndUnique) {
  std::set<std::string_view> names;
  for (const DiagnosticKindInfo& info : AllDiagnosticKinds()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    for (char c : info.name) EXPECT_TRUE(std::islower(c) || std::isdigit(c) || c == '-') << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_FALSE(std::isupper(info.summary.front()) || info.summary.ends_with('.')) << info.name;
  }
}

TEST(DiagnosticSinkTest, SortsByPlaceAndPutsElsewhereLast) {
  DiagnosticSink sink;
  sink.Report({.place = Place::Elsewhere("b.pt"), .message = "elsewhere b"});
  sink.Report(At({7, 9}, "late"));
  sink.Report({.place = Place::Elsewhere("a.pt"), .message = "elsewhere a"});
  sink.Report(At({2, 9}, "early and wide"));
  sink.Report(At({2, 4}, "early"));
  EXPECT_THAT(Messages(sink), testing::ElementsAre("early", "early and wide", "late", "elsewhere b", "elsewhere a"));
}

TEST(DiagnosticSinkTest, SaysTheSameThingOnce) {
  DiagnosticSink sink;
  sink.Report(At({1, 2}, "twice"));
  sink.Report(At({1, 2}, "twice"));
  sink.Report(At({3, 4}, "twice"));
  EXPECT_THAT(Messages(sink), testing::ElementsAre("twice", "twice"));
}

TEST(DiagnosticSinkTest, KeepsABoundedNumberAndCountsTheRest) {
  DiagnosticSink sink;
  for (std::uint32_t i = 0; i < DiagnosticSink::kMaxKept + 5; ++i) sink.Report(At({i, i + 1}, "x"));
  EXPECT_EQ(sink.Sorted().size(), DiagnosticSink::kMaxKept);
  EXPECT_EQ(sink.dropped_count(), 5u);
  EXPECT_EQ(sink.error_count(), DiagnosticSink::kMaxKept + 5);
}

}  // namespace
}  // namespace ucp
