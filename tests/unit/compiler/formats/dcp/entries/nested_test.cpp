#include "compiler/formats/dcp/entries/nested.h"

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

TEST(Nested, NoneStandsForWhatIsNotHere) {
  EXPECT_EQ(Nested({{{"b", 0}, MakeInteger(3)}, {{"b", 2}, MakeInteger(4)}}), "{'b': [3, None, 4]}");
  EXPECT_EQ(Nested({{{"b", 1, "c"}, MakeInteger(3)}}), "{'b': [None, {'c': 3}]}");
}

TEST(Nested, PlacesThatAreNoListsAreKeys) {
  EXPECT_EQ(Nested({{{"b", 2}, MakeInteger(3)}, {{"b", 0}, MakeInteger(4)}}), "{'b': {2: 3, 0: 4}}");
  EXPECT_EQ(Nested({{{"b", 1'000'000'000'000}, MakeInteger(3)}}), "{'b': {1000000000000: 3}}");
}

TEST(Nested, NothingStandsBelowAValue) {
  EXPECT_EQ(Nested({{{"a"}, MakeInteger(3)}, {{"a", "b"}, MakeInteger(4)}, {{"a"}, MakeInteger(5)}}), "{'a': 3}");
}

}  // namespace
}  // namespace ucp::dcp
