#include "compiler/formats/dcp/entries/parameter_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Names in the order of the nested dict, each with its place among what was saved.
struct Ordered {
  std::vector<std::string> names;
  std::string doubt;
};
Ordered Order(const std::vector<std::pair<std::string, std::size_t>>& saved) {
  std::vector<Entry> entries(saved.size());
  std::vector<ModelEntry> tensors;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    entries[i].saved = saved[i].second;
    tensors.push_back({saved[i].first, &entries[i]});
  }
  Ordered ordered{{}, PutInOrder(tensors)};
  for (const ModelEntry& tensor : tensors) ordered.names.push_back(tensor.name);
  return ordered;
}

// Replicas are shared out, so what was saved is in any order.
TEST(ParameterOrder, OfOneModuleIsKept) {
  const Ordered ordered = Order({{"embed", 3}, {"layers.0.a", 1}, {"layers.1.a", 2}, {"norm", 0}});
  EXPECT_THAT(ordered.names, ElementsAre("embed", "layers.0.a", "layers.1.a", "norm"));
  EXPECT_EQ(ordered.doubt, "");
}

TEST(ParameterOrder, StagesOfAPipelineComeFromTheLast) {
  const Ordered ordered = Order({{"layers.2.a", 4}, {"norm", 5}, {"layers.1.a", 2}, {"embed", 0}, {"layers.0.a", 1}});
  EXPECT_THAT(ordered.names, ElementsAre("embed", "layers.0.a", "layers.1.a", "layers.2.a", "norm"));
  EXPECT_EQ(ordered.doubt, "");
}

TEST(ParameterOrder, OfInterleavedStagesIsNotKnown) {
  EXPECT_THAT(Order({{"layers.1.a", 2}, {"layers.3.a", 3}, {"layers.0.a", 0}, {"layers.2.a", 1}}).doubt,
              HasSubstr("`layers.1.a` stands behind a later layer"));
}

}  // namespace
}  // namespace ucp::dcp
