// Where elements lie, against the two rules of storage.h taken one element at a time.
#include "compiler/layout/storage.h"

#include <gmock/gmock.h>

#include "compiler/layout/target.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp {
namespace {

using oracle::Pick;

TEST(StorageTest, FragmentsFollowTheRules) {
  oracle::Random random(oracle::TestSeed());
  for (int i = 0; i < 5000; ++i) {
    Spread spread = Pick(random, 0, 1) == 0 ? Spread::kAcrossBuffer : Spread::kEachTensor;
    std::int64_t elements = Pick(random, 0, 30);
    std::int64_t base = Pick(random, 0, 9);
    Buffer buffer;
    buffer.parts.resize(static_cast<std::size_t>(Pick(random, 1, 6)));
    auto parts = std::ssize(buffer.parts);
    buffer.part_elements = (base + elements + parts - 1) / parts + Pick(random, 0, 2) + 1;
    std::int64_t begin = Pick(random, 0, elements);
    std::int64_t end = Pick(random, begin, elements);
    std::int64_t each = (elements + parts - 1) / parts;

    std::int64_t at = begin;
    std::size_t last_part = 0;
    for (const Fragment& fragment : FragmentsOf(spread, base, elements, buffer, begin, end)) {
      ASSERT_EQ(fragment.begin, at);
      ASSERT_LT(fragment.begin, fragment.end);
      ASSERT_TRUE(at == begin || fragment.part > last_part);
      last_part = fragment.part;
      for (; at < fragment.end; ++at) {
        bool across = spread == Spread::kAcrossBuffer;
        std::int64_t part = across ? (base + at) / buffer.part_elements : at / each;
        std::int64_t place = across ? (base + at) % buffer.part_elements : base + at % each;
        ASSERT_EQ(std::ssize(buffer.parts) == 1 ? 0 : part, static_cast<std::int64_t>(fragment.part));
        ASSERT_EQ(parts == 1 ? base + at : place, fragment.place + (at - fragment.begin));
      }
    }
    ASSERT_EQ(at, end);
  }
}

TEST(StorageTest, StatesOfAShardAreSorted) {
  StorageTables tables;
  BufferSetId id = tables.Add(BufferSet{{"fp32", BufferId(0)}, {"exp_avg", BufferId(1)}});
  EXPECT_EQ(tables.buffer_set(id).front().state, "exp_avg");
}

TEST(TargetFilesTest, EqualBlobsAreShared) {
  TargetFiles files;
  BlobId first = files.AddBlob("a");
  EXPECT_NE(first, files.AddBlob("b"));
  EXPECT_EQ(first, files.AddBlob("a"));
  EXPECT_EQ(files.blobs.size(), 2u);
}

}  // namespace
}  // namespace ucp
