// Muon's momentum is cut to the partition: against a flat vector in which every element is its own place.
#include "runtime/formats/deepspeed/read/muon_momentum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/support/checked_math.h"
#include "runtime/formats/pytorch/value.h"

namespace ucp::deepspeed {
namespace {

constexpr const char* kMomentum = "momentum_buffer";

// A partition's group, and what stands in its momentum: the places of the flat vector.
struct Partition {
  GroupPartition held;
  std::vector<std::int64_t> momentum;
};

pytorch::ValuePtr Hyper(bool use_muon) {
  return pytorch::MakeDict({{pytorch::MakeText("use_muon"), pytorch::MakeBool(use_muon)}});
}

TensorPlace Vector(std::int64_t elements) {
  TensorPlace place;
  place.sizes = {elements};
  place.elements = elements;
  place.record_elements = elements;
  return place;
}

// As the engine allocates it: whole parameters, one by one, if any of their places lies in the partition.
Partition WholeMatrices(const FlatGroup& group, std::int64_t length, std::int64_t index) {
  Partition partition;
  partition.held.hyper_parameters = Hyper(true);
  for (const FlatParameter& parameter : group.parameters) {
    bool is_in = false;
    for (std::int64_t i = 0; i < parameter.elements; ++i) is_in = is_in || (parameter.offset + i) / length == index;
    for (std::int64_t i = 0; is_in && i < parameter.elements; ++i) partition.momentum.push_back(parameter.offset + i);
  }
  if (!partition.momentum.empty()) {
    partition.held.states.emplace(kMomentum, Vector(static_cast<std::int64_t>(partition.momentum.size())));
  }
  return partition;
}

FlatGroup Group(const std::vector<std::int64_t>& sizes) {
  std::vector<NamedShape> shapes;
  for (std::int64_t size : sizes) shapes.push_back({std::to_string(shapes.size()), {size, 1}});
  return llvm::cantFail(LayOutGroup(shapes, {}));
}

TEST(MuonMomentum, EveryPartitionHasItsOwnPlaces) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> sizes;
    for (int i = draw(1, 6); i > 0; --i) sizes.push_back(draw(1, 20));
    const FlatGroup group = Group(sizes);
    const std::int64_t count = draw(1, 6);
    const std::int64_t length = 2 * CeilDivide(group.elements, 2 * count);
    std::vector<Partition> partitions;
    for (std::int64_t p = 0; p < count; ++p) partitions.push_back(WholeMatrices(group, length, p));
    std::vector<GroupPartition*> held;
    for (Partition& partition : partitions) held.push_back(&partition.held);
    CutMuonMomentum(group, length, held);
    for (std::int64_t p = 0; p < count; ++p) {
      const Partition& partition = partitions[static_cast<std::size_t>(p)];
      const TensorPlace& place = partition.held.states.at(kMomentum);
      const std::int64_t real = std::clamp<std::int64_t>(group.elements - p * length, 0, length);
      // A group whose matrices all begin and end with partitions looks the same in both forms.
      ASSERT_EQ(place.elements == length ? real : place.elements, real) << "partition " << p << " of " << count;
      for (std::int64_t i = 0; i < real; ++i) {
        ASSERT_EQ(partition.momentum.at(static_cast<std::size_t>(place.offset + i)), p * length + i);
      }
    }
  }
}

TEST(MuonMomentum, PartsStayAsTheyAre) {
  const FlatGroup group = Group({5, 4});
  GroupPartition a, b;
  for (GroupPartition* partition : {&a, &b}) {
    partition->hyper_parameters = Hyper(true);
    partition->states.emplace(kMomentum, Vector(6));
  }
  CutMuonMomentum(group, 6, {&a, &b});
  EXPECT_EQ(b.states.at(kMomentum).offset, 0);
  EXPECT_EQ(b.states.at(kMomentum).elements, 6);
}

TEST(MuonMomentum, OtherOptimizersAndOtherLengthsAreLeftAlone) {
  const FlatGroup group = Group({5, 4});
  for (bool use_muon : {false, true}) {
    GroupPartition a, b;
    for (GroupPartition* partition : {&a, &b}) partition->hyper_parameters = Hyper(use_muon);
    a.states.emplace(kMomentum, Vector(use_muon ? 8 : 9));
    b.states.emplace(kMomentum, Vector(4));
    CutMuonMomentum(group, 6, {&a, &b});
    EXPECT_EQ(b.states.at(kMomentum).elements, 4);
    EXPECT_EQ(a.states.at(kMomentum).sizes, (std::vector<std::int64_t>{use_muon ? 8 : 9}));
  }
}

}  // namespace
}  // namespace ucp::deepspeed
