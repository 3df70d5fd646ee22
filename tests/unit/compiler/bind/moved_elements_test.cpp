// The sentence on what moves, against cases whose answer is plain to see.
#include "compiler/bind/moved_elements.h"

#include <gtest/gtest.h>

#include "compiler/bind/bind.h"
#include "compiler/check/check_spec.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

constexpr const char* kMovedModel = R"(ucp 1
dim a = 4
dim b = 4
dim c = 3
dim pair = 2
dim half = 3
model m { square [a, b] oblong [a, c] turned [a * pair * half, c] gate [c, a] up [c, a] kept [b] }
layout one of m {
  "square" = square "oblong" = oblong "turned" = turned "gate" = gate "up" = up "kept" = kept
}
layout two of m {
  "square.t" = square [b, a]
  "oblong.t" = oblong [c, a]
  "turned.t" = turned [a * half * pair, c]
  "both.{i: c}" = [gate: a + up: a]
  "kept" = kept
}
layout three of m {
  "square" = square "oblong" = oblong "turned.{i: a}" = turned "gate" = gate "up" = up "kept" = kept
}
)";

std::string Moves(const char* from, const char* to) {
  const Source source = llvm::cantFail(Source::FromText("model.ucp", kMovedModel));
  DiagnosticSink sink;
  const CheckedSpec spec = *CheckSpec(*ParseSpec(source, sink), source, sink);
  const BoundSpec a = *BindSpec(WithLayout(spec, *FindLayout(spec, from)), {}, {}, sink);
  const BoundSpec b = *BindSpec(WithLayout(spec, *FindLayout(spec, to)), {}, {}, sink);
  const StoredParts of_a = *FindStoredParts(a, sink);
  const StoredParts of_b = *FindStoredParts(b, sink);
  return TextOfMoves({a, of_a}, {b, of_b}, *FindCommonElements({a, of_a}, {b, of_b}, sink));
}

TEST(MovedElementsTest, EachWayIsCounted) {
  EXPECT_EQ(Moves("one", "one"), "of 6 tensors of the layout `one`, 6 have the elements of one tensor in their order");
  EXPECT_EQ(Moves("one", "two"),
            "of 7 tensors of the layout `two`, 1 has the elements of one tensor in their order; 3 are put together of "
            "several; 1 has another order within a dimension, such as `turned.t` of `turned`, and no shape shows it; "
            "2 have another order of dimensions, such as `oblong.t` of `oblong`, and the shapes of 1 do not show it");
  EXPECT_EQ(Moves("one", "three"),
            "of 9 tensors of the layout `three`, 5 have the elements of one tensor in their order; 4 are part of one");
}

}  // namespace
}  // namespace ucp
