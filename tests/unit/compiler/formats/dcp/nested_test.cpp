#include "compiler/formats/dcp/nested.h"

#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::dcp {
namespace {

using pytorch::MakeInteger;

std::string Nested(std::vector<Leaf> leaves) { return pytorch::Print(*pytorch::MakeDict(Nest(std::move(leaves)))); }

TEST(Nested, DictsAndLists) {
  EXPECT_EQ(Nested({{{"b", 0}, MakeInteger(3)}, {{"b", 1, "c"}, MakeInteger(4)}, {{"a"}, MakeInteger(5)}}),
            "{'b': [3, {'c': 4}], 'a': 5}");
}

TEST(Nested, PlacesWithGapsAreKeys) {
  EXPECT_EQ(Nested({{{"b", 0}, MakeInteger(3)}, {{"b", 2}, MakeInteger(4)}}), "{'b': {0: 3, 2: 4}}");
}

TEST(Nested, NothingStandsBelowAValue) {
  EXPECT_EQ(Nested({{{"a"}, MakeInteger(3)}, {{"a", "b"}, MakeInteger(4)}, {{"a"}, MakeInteger(5)}}), "{'a': 3}");
}

}  // namespace
}  // namespace ucp::dcp
