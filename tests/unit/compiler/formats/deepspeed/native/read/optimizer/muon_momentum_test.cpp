// Muon's momentum is cut to the partition: against a flat vector in which every element is its own place.
#include "compiler/formats/deepspeed/native/read/optimizer/muon_momentum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/formats/deepspeed/common/muon_groups.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/support/checked_math.h"

namespace ucp::deepspeed {
namespace {

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
    partition.held.states.emplace(kMomentumState, Vector(static_cast<std::int64_t>(partition.momentum.size())));
  }
  return partition;
}

FlatGroup Group(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& paddings = {}) {
  std::vector<NamedShape> shapes;
  for (std::int64_t size : sizes) shapes.push_back({std::to_string(shapes.size()), {size, 1}});
  return llvm::cantFail(LayOutGroup(shapes, paddings));
}

std::vector<GroupPartition*> Held(std::vector<Partition>& partitions) {
  std::vector<GroupPartition*> held;
  for (Partition& partition : partitions) held.push_back(&partition.held);
  return held;
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
    CutMuonMomentum(group, length, Held(partitions));
    for (std::int64_t p = 0; p < count; ++p) {
      const Partition& partition = partitions[static_cast<std::size_t>(p)];
      const TensorPlace& place = partition.held.states.at(kMomentumState);
      const std::int64_t real = std::clamp<std::int64_t>(group.elements - p * length, 0, length);
      // A group whose matrices all begin and end with partitions looks the same in both forms.
      ASSERT_EQ(place.elements == length ? real : place.elements, real) << "partition " << p << " of " << count;
      for (std::int64_t i = 0; i < real; ++i) {
        ASSERT_EQ(partition.momentum.at(static_cast<std::size_t>(place.offset + i)), p * length + i);
      }
    }
  }
}

// With zeros between the matrices, which the momentum does not have.
TEST(MuonMomentum, EveryMatrixHasItsOwnPlaces) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> sizes, paddings;
    for (int i = draw(2, 6); i > 0; --i) {
      sizes.push_back(draw(1, 20));
      paddings.push_back(i == 1 ? 0 : draw(i == 2 ? 1 : 0, 3));  // One is not zero.
    }
    const FlatGroup group = Group(sizes, paddings);
    const std::int64_t count = draw(1, 6);
    const std::int64_t length = 2 * CeilDivide(group.elements, 2 * count);
    std::vector<Partition> partitions;
    for (std::int64_t p = 0; p < count; ++p) partitions.push_back(WholeMatrices(group, length, p));
    for (std::int64_t p = 0; p < count; ++p) {
      auto momentum = partitions[static_cast<std::size_t>(p)].held.states.find(kMomentumState);
      if (momentum != partitions[static_cast<std::size_t>(p)].held.states.end()) {
        momentum->second.record = RecordId(static_cast<std::size_t>(p));
      }
    }
    CutMuonMomentum(group, length, Held(partitions));  // Leaves them alone.
    std::vector<int> held(sizes.size());
    for (const WholeMatrix& matrix : TakeMuonMomentum(group, length, false, Held(partitions))) {
      const std::vector<std::int64_t>& stored = partitions[matrix.momentum.record.index()].momentum;
      ++held[matrix.parameter];
      ASSERT_EQ(matrix.momentum.elements, sizes[matrix.parameter]);
      ASSERT_EQ(matrix.momentum.sizes, group.parameters[matrix.parameter].shape);
      for (std::int64_t i = 0; i < matrix.momentum.elements; ++i) {
        ASSERT_EQ(stored.at(static_cast<std::size_t>(matrix.momentum.offset + i)),
                  group.parameters[matrix.parameter].offset + i);
      }
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const FlatParameter& parameter = group.parameters[i];
      const auto first = parameter.offset / length;
      ASSERT_EQ(held[i], (parameter.offset + parameter.elements - 1) / length - first + 1) << "matrix " << i;
    }
    for (const Partition& partition : partitions) ASSERT_FALSE(partition.held.states.contains(kMomentumState));
  }
}

// In partitions of 16: the first has matrices of 7 and 9, the second those of 9 and 7, and each as many elements in
// whole as in its part.
TEST(MuonMomentum, WhereLengthsTellNothingTheOptimizersPlaceDoes) {
  const FlatGroup group = Group({7, 9, 7}, {1, 7, 0});
  for (bool is_on_cpu : {true, false}) {
    std::vector<Partition> partitions = {WholeMatrices(group, 16, 0), WholeMatrices(group, 16, 1)};
    for (const Partition& partition : partitions) ASSERT_EQ(partition.momentum.size(), 16u);
    EXPECT_EQ(TakeMuonMomentum(group, 16, is_on_cpu, Held(partitions)).size(), is_on_cpu ? 0u : 4u);
    EXPECT_EQ(partitions[0].held.states.contains(kMomentumState), is_on_cpu);
  }
}

TEST(MuonMomentum, PartsStayAsTheyAre) {
  const FlatGroup group = Group({5, 4});
  GroupPartition a, b;
  for (GroupPartition* partition : {&a, &b}) {
    partition->hyper_parameters = Hyper(true);
    partition->states.emplace(kMomentumState, Vector(6));
  }
  CutMuonMomentum(group, 6, {&a, &b});
  EXPECT_EQ(b.states.at(kMomentumState).offset, 0);
  EXPECT_EQ(b.states.at(kMomentumState).elements, 6);
}

TEST(MuonMomentum, OtherOptimizersAndOtherLengthsAreLeftAlone) {
  const FlatGroup group = Group({5, 4});
  for (bool use_muon : {false, true}) {
    GroupPartition a, b;
    for (GroupPartition* partition : {&a, &b}) partition->hyper_parameters = Hyper(use_muon);
    a.states.emplace(kMomentumState, Vector(use_muon ? 8 : 9));
    b.states.emplace(kMomentumState, Vector(4));
    CutMuonMomentum(group, 6, {&a, &b});
    EXPECT_EQ(b.states.at(kMomentumState).elements, 4);
    EXPECT_EQ(a.states.at(kMomentumState).sizes, (std::vector<std::int64_t>{use_muon ? 8 : 9}));
  }
}

}  // namespace
}  // namespace ucp::deepspeed
