// Boxes of tensors of any strides, copied row-major: compared with a loop over their elements.
#include "runtime/save/stage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// One element after the other.
std::vector<std::byte> Expected(const BoxMemory& box) {
  std::int64_t elements = 1;
  for (const std::int64_t size : box.sizes) elements *= size;
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> at(box.sizes.size());
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * box.strides[d];
    const std::byte* element = box.address + place * box.item_bytes;
    bytes.insert(bytes.end(), element, element + box.item_bytes);
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.sizes[d]) break;
      at[d] = 0;
    }
  }
  return bytes;
}

std::vector<std::byte> Numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

TEST(StageTest, AnyStrides) {
  std::mt19937 random(3);
  const std::vector<std::byte> memory = Numbered(1 << 16);
  for (int round = 0; round < 300; ++round) {
    BoxMemory box{memory.data() + random() % 64, std::int64_t{1} << (random() % 4), {}, {}};
    const std::size_t dims = random() % 4;
    std::vector<std::size_t> order(dims);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::shuffle(order, random);
    for (std::size_t d = 0; d < dims; ++d) box.sizes.push_back(1 + static_cast<std::int64_t>(random() % 6));
    box.strides.resize(dims);
    std::int64_t stride = 1;
    for (const std::size_t d : order) {
      box.strides[d] = stride;
      stride *= box.sizes[d] + static_cast<std::int64_t>(random() % 2);  // With gaps, or without.
    }
    const std::vector<std::byte> expected = Expected(box);
    std::vector<std::byte> staged(expected.size() + 1, std::byte{0xee});
    const StagedCopy copy{&box, staged.data()};
    ASSERT_FALSE(static_cast<bool>(StageBoxes({&copy, 1}, {1 + static_cast<unsigned>(random() % 3), nullptr})));
    EXPECT_EQ(staged.back(), std::byte{0xee});
    staged.pop_back();
    ASSERT_EQ(staged, expected);
  }
}

TEST(StageTest, LargeBoxesAreCopiedInPieces) {
  const std::vector<std::byte> memory = Numbered((9 << 20) + 12);
  const BoxMemory rows{memory.data() + 4, 4, {3, 786432}, {786432, 1}};  // Contiguous: 9 MiB.
  const BoxMemory columns{memory.data(), 4, {1024, 700}, {2048, 1}};     // Of a wider tensor.
  const BoxMemory nothing{memory.data(), 4, {0, 5}, {5, 1}};
  std::vector<std::vector<std::byte>> staged;
  std::vector<StagedCopy> copies;
  for (const BoxMemory* box : {&rows, &columns, &nothing}) staged.emplace_back(Expected(*box).size());
  for (std::size_t i = 0; i < 3; ++i) copies.push_back({std::array{&rows, &columns, &nothing}[i], staged[i].data()});
  ASSERT_FALSE(static_cast<bool>(StageBoxes(copies, {3, nullptr})));
  EXPECT_EQ(staged[0], Expected(rows));
  EXPECT_EQ(staged[1], Expected(columns));
}

TEST(StageTest, LongRowsAtAnyAddress) {
  const std::vector<std::byte> memory = Numbered((1 << 20) + 200);
  for (const std::int64_t bytes : {262143, 262144, 262145, 262207, 300001}) {
    for (std::size_t from = 0; from < 20; from += 7) {
      for (std::size_t to = 0; to < 17; ++to) {
        const BoxMemory box{memory.data() + from, 1, {bytes}, {1}};
        const auto length = static_cast<std::size_t>(bytes);
        std::vector<std::byte> staged(to + length + 1, std::byte{0xee});
        const StagedCopy copy{&box, staged.data() + to};
        ASSERT_FALSE(static_cast<bool>(StageBoxes({&copy, 1}, {1, nullptr})));
        std::vector<std::byte> expected(to + length + 1, std::byte{0xee});
        std::memcpy(expected.data() + to, memory.data() + from, length);
        ASSERT_EQ(std::memcmp(staged.data(), expected.data(), staged.size()), 0)
            << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace ucp
