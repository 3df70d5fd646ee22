// Pieces between layouts, against pieces that are written down by hand.
#include "compiler/bind/between_layouts.h"

#include <gmock/gmock.h>

#include "compiler/bind/bind.h"
#include "compiler/bind/shard_pieces.h"
#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// q [6, 2] in groups of 2 rows, k [3, 2] in groups of one; x [2, 3, 4].
constexpr const char* kModel = R"(ucp 1
dim groups = 3
dim rows = 2
dim wide = 2
dim n = 2
dim a = 3
dim b = 4
model m { q [groups * rows, wide] k [groups, wide] x [n, a, b] }
layout apart of m { "q" = q "k" = k "x.{i: n}" = x }
layout fused of m { "qk" = [groups * (q: rows + k: 1), wide] "x" = x [b, n * a] }
layout other of m { "q" = q "k" = k block "x" { "{i: n}.{j: a}" = x } }
layout part of m { "q" = q "k" = k block "x.{i: n}" { when i < 1 { "y" = x } } }
)";

class BetweenLayoutsTest : public testing::Test {
 protected:
  // Of whole tensors.
  std::optional<std::map<std::string, std::vector<ShardPiece>>> Between(const char* from, const char* to) {
    const Source source = llvm::cantFail(Source::FromText("model.ucp", kModel));
    DiagnosticSink sink;
    const CheckedSpec spec = *CheckSpec(*ParseSpec(source, sink), source, sink);
    const BoundSpec a = *BindSpec(WithLayout(spec, *FindLayout(spec, from)), {}, {}, sink);
    const BoundSpec b = *BindSpec(WithLayout(spec, *FindLayout(spec, to)), {}, {}, sink);
    const StoredParts stored = *FindStoredParts(b, sink);
    const auto common = FindCommonElements({a, *FindStoredParts(a, sink)}, {b, stored}, sink);
    messages_ = RenderText(source, sink);
    if (!common) return std::nullopt;
    std::map<std::string, std::vector<ShardPiece>> pieces;
    for (std::size_t t = 0; t < b.tensors.size(); ++t) {
      std::int64_t runs_left = kMostPieces;
      const std::string& name = b.tensors[t].name;
      if (common->contains(name)) {
        pieces[name] = PiecesOf(common->at(name), ProductSet::Whole(stored.shapes[t]), runs_left);
      }
    }
    return pieces;
  }

  std::string messages_;
};

ShardPiece Piece(std::string tensor, std::vector<std::vector<Run>> dims, std::int64_t begin,
                 std::vector<std::int64_t> strides) {
  ShardPiece piece{std::move(tensor), {}, begin, std::move(strides)};
  for (const std::vector<Run>& runs : dims) {
    Selection& selection = piece.set.dims.emplace_back();
    for (const Run& run : runs) selection.Append(run.logical_begin, run.length);
  }
  return piece;
}

TEST_F(BetweenLayoutsTest, FusedRowsComeGroupByGroup) {
  const auto pieces = Between("apart", "fused");
  ASSERT_TRUE(pieces) << messages_;
  // The rows of each group stand together: of three rows or two, the three groups stay a loop.
  EXPECT_THAT(pieces->at("qk"), ElementsAre(Piece("q", {{{0, 0, 1}, {1, 2, 1}, {2, 4, 1}}, {{0, 0, 2}}}, 0, {6, 1}),
                                            Piece("q", {{{0, 1, 1}, {1, 3, 1}, {2, 5, 1}}, {{0, 0, 2}}}, 2, {6, 1}),
                                            Piece("k", {{{0, 0, 3}}, {{0, 0, 2}}}, 4, {6, 1})));
  EXPECT_THAT(pieces->at("x"), ElementsAre(Piece("x.0", {{{0, 0, 3}}, {{0, 0, 4}}}, 0, {1, 6}),
                                           Piece("x.1", {{{0, 0, 3}}, {{0, 0, 4}}}, 3, {1, 6})));
}

TEST_F(BetweenLayoutsTest, TakenApartTheyAreOnePieceEach) {
  const auto pieces = Between("fused", "apart");
  ASSERT_TRUE(pieces) << messages_;
  EXPECT_THAT(pieces->at("q"), ElementsAre(Piece("qk", {{{0, 0, 2}, {2, 3, 2}, {4, 6, 2}}, {{0, 0, 2}}}, 0, {2, 1})));
  EXPECT_THAT(pieces->at("k"), ElementsAre(Piece("qk", {{{0, 2, 1}, {1, 5, 1}, {2, 8, 1}}, {{0, 0, 2}}}, 0, {2, 1})));
  EXPECT_THAT(pieces->at("x.1"), ElementsAre(Piece("x", {{{0, 0, 4}}, {{0, 3, 3}}}, 0, {1, 4})));
}

TEST_F(BetweenLayoutsTest, CountersOfOneSideAreLoopsOfTheOther) {
  const auto there = Between("apart", "other");
  ASSERT_TRUE(there) << messages_;
  EXPECT_THAT(there->at("x.1.2"), ElementsAre(Piece("x.1", {{{0, 2, 1}}, {{0, 0, 4}}}, 0, {1, 1})));
  const auto back = Between("other", "fused");
  ASSERT_TRUE(back) << messages_;
  ASSERT_EQ(back->at("x").size(), 6u);
  EXPECT_EQ(back->at("x")[4], Piece("x.1.1", {{{0, 0, 4}}}, 4, {6}));
}

TEST_F(BetweenLayoutsTest, ElementsOfOneSideAloneAreNamed) {
  EXPECT_FALSE(Between("apart", "part"));
  EXPECT_THAT(messages_, HasSubstr("`x.1` has 12 elements of the part `x` that the layout `part` does not store"));
  EXPECT_FALSE(Between("part", "fused"));
  EXPECT_THAT(messages_, HasSubstr("`x` of the layout `fused` wants elements of the part `x` that the source, in the "
                                   "layout `part`, does not have"));
}

TEST(StoredPartsTest, APartOfWhichNothingIsStoredNeedsNoDims) {
  const Source source = llvm::cantFail(Source::FromText("model.ucp", R"(ucp 1
fact more from config.more
dim a = 2
dim b from config.b
model m { p [a] q [b] }
layout one of m { "p" = p when more { "q" = q } }
)"));
  DiagnosticSink sink;
  const CheckedSpec spec = *CheckSpec(*ParseSpec(source, sink), source, sink);
  Inventory inventory;
  inventory.facts["config.more"] = {{false}, "config.json"};
  const auto bound = BindSpec(spec, inventory, {}, sink);
  ASSERT_TRUE(bound) << RenderText(source, sink);
  EXPECT_FALSE(bound->dims[1]);
}

}  // namespace
}  // namespace ucp
