#include "runtime/synth/synthetic_comparison.h"

#include <gmock/gmock.h>

#include <cstring>

namespace ucp {
namespace {

constexpr std::int64_t kElementsOfA = 5000;

// A plan that writes one bfloat16 state of one tensor.
Plan OneTensor() {
  Plan plan;
  plan.tensors.resize(1);
  plan.tensors[0].logical.name = "a";
  const FileId file = plan.target.Add(StoredFile{"a", 2 * kElementsOfA, ""});
  const RecordId record = plan.target.Add(Record{file, 0, 2 * kElementsOfA, {}});
  Buffer buffer;
  buffer.dtype = DType::kBFloat16;
  buffer.part_elements = kElementsOfA;
  buffer.parts.push_back({record, 0, kElementsOfA});
  PlanWrite write;
  write.pieces.push_back({.tensor = TensorId(0), .set = SetId(0)});
  write.states = plan.target.Add(BufferSet{{"weight", plan.target.Add(std::move(buffer))}});
  plan.writes.push_back(write);
  return plan;
}

TargetRange From(std::int64_t first) {
  TargetRange range;
  range.record = RecordId(0);
  range.record_element = first;
  range.dtype = DType::kBFloat16;
  return range;
}

TEST(SyntheticComparisonTest, TheSmallestWrongElementIsNoted) {
  const Plan plan = OneTensor();
  SyntheticComparison comparison = llvm::cantFail(SyntheticComparison::Make(plan));
  std::vector<std::byte> truth(2 * kElementsOfA);
  llvm::cantFail(SyntheticValues::Make("a", "weight", DType::kBFloat16)).Fill(0, truth);
  comparison.Compare(From(0), truth);
  EXPECT_THAT(comparison.wrong(), testing::IsEmpty());
  std::vector<std::byte> wrong = truth;
  wrong[2 * 4321] ^= std::byte{1};
  wrong[2 * 4999 + 1] ^= std::byte{1};
  wrong[2 * 77] ^= std::byte{1};
  // The later part first, as threads may do it.
  comparison.Compare(From(3000), std::span(wrong).subspan(6000));
  comparison.Compare(From(0), std::span(wrong).first(6000));
  const WrongElements& found = comparison.wrong().at(RecordId(0));
  EXPECT_EQ(found.count, 3u);
  EXPECT_EQ(found.first, 77);
  EXPECT_EQ(std::memcmp(found.was.data(), wrong.data() + 2 * 77, 2), 0);
  EXPECT_EQ(std::memcmp(found.should_be.data(), truth.data() + 2 * 77, 2), 0);
}

}  // namespace
}  // namespace ucp
