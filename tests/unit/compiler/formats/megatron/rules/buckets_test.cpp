#include "compiler/formats/megatron/rules/buckets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp::megatron {
namespace {

using ::testing::HasSubstr;

std::vector<std::pair<std::size_t, std::int64_t>> PlacesOf(llvm::ArrayRef<std::int64_t> elements,
                                                           llvm::ArrayRef<std::int64_t> buckets) {
  const Placing placing = FillBuckets(elements, buckets);
  EXPECT_EQ(placing.unread, "");
  std::vector<std::pair<std::size_t, std::int64_t>> places;
  for (const PlaceInBuckets& place : placing.places) places.emplace_back(place.bucket, place.begin);
  return places;
}

using Places = std::vector<std::pair<std::size_t, std::int64_t>>;

TEST(FillBucketsTest, LastParameterStandsFirst) {
  EXPECT_EQ(PlacesOf({100, 30, 64}, {228}), (Places{{0, 128}, {0, 64}, {0, 0}}));
}

TEST(FillBucketsTest, BucketEndsWithItsLastParameter) {
  EXPECT_EQ(PlacesOf({100, 30, 64}, {94, 100}), (Places{{1, 0}, {0, 64}, {0, 0}}));
  EXPECT_EQ(PlacesOf({100, 64}, {64, 100}), (Places{{1, 0}, {0, 0}}));
}

TEST(FillBucketsTest, BucketBeforeTiedEmbeddingEndsWhereThatWouldBegin) {
  EXPECT_EQ(PlacesOf({100, 30, 64}, {128, 100}), (Places{{1, 0}, {0, 64}, {0, 0}}));
}

TEST(FillBucketsTest, RefusesOtherSizes) {
  EXPECT_THAT(FillBuckets({100, 30, 64}, {200}).unread,
              HasSubstr("bucket 0 would have a parameter of 100 elements from element 128 on, and 200 elements are"));
  EXPECT_THAT(FillBuckets({100, 30, 64}, {300}).unread,
              HasSubstr("the parameters end at element 228 of bucket 0, and 1 buckets are stored, the last of 300"));
  EXPECT_THAT(FillBuckets({100, 30, 64}, {94}).unread, HasSubstr("1 buckets are stored, and the parameters fill more"));
  EXPECT_THAT(FillBuckets({100}, {100, 5}).unread, HasSubstr("the parameters end at element 100 of bucket 0, and 2"));
  EXPECT_THAT(FillBuckets({1}, {}).unread, HasSubstr("0 buckets are stored"));
  EXPECT_THAT(FillBuckets({}, {}).unread, HasSubstr("0 buckets are stored"));
}

// "bucket@begin" of each, and the sizes behind them.
std::string Dealt(llvm::ArrayRef<std::int64_t> elements, const std::vector<bool>& are_alone,
                  std::optional<std::int64_t> most) {
  const Buckets buckets = DealIntoBuckets(elements, are_alone, most);
  std::string text;
  for (const PlaceInBuckets& place : buckets.places) text += fmt::format("{}@{} ", place.bucket, place.begin);
  return fmt::format("{}of {}", text, fmt::join(buckets.sizes, " "));
}

TEST(DealIntoBucketsTest, BucketsEndWhereTheyAreFull) {
  EXPECT_EQ(Dealt({10, 20, 30}, {false, false, false}, std::nullopt), "0@128 0@64 0@0 of 138");
  EXPECT_EQ(Dealt({10, 20, 30}, {false, false, false}, 30), "1@64 1@0 0@0 of 30 74");
  EXPECT_EQ(Dealt({10, 20, 30}, {false, false, false}, 31), "1@0 0@64 0@0 of 84 10");
}

// The bucket before theirs ends where they would have begun.
TEST(DealIntoBucketsTest, TiedEmbeddingsStandAlone) {
  EXPECT_EQ(Dealt({10, 20, 30}, {true, false, false}, std::nullopt), "1@0 0@64 0@0 of 128 10");
  EXPECT_EQ(Dealt({10, 20, 30}, {false, false, true}, std::nullopt), "1@64 1@0 0@0 of 30 74");
}

}  // namespace
}  // namespace ucp::megatron
