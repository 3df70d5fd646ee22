#include "compiler/formats/megatron/rules/arguments.h"

#include <gtest/gtest.h>

namespace ucp::megatron {
namespace {

// As Megatron-LM's script sets `bucket_size` and `disable_bucketing`.
TEST(ArgumentsTest, BucketsEndWhereGradientsAreReducedEarly) {
  std::map<std::string, Fact> facts;
  EXPECT_EQ(Arguments(facts).ElementsOfBucket(), std::nullopt);
  facts["args.overlap_grad_reduce"] = Fact{FactValue{true}, "a.pt"};
  EXPECT_EQ(Arguments(facts).ElementsOfBucket(), 40'000'000);
  facts["args.ddp_bucket_size"] = Fact{FactValue{std::int64_t{1000}}, "a.pt"};
  EXPECT_EQ(Arguments(facts).ElementsOfBucket(), 1000);
  facts["args.overlap_param_gather_with_optimizer_step"] = Fact{FactValue{true}, "a.pt"};
  EXPECT_EQ(Arguments(facts).ElementsOfBucket(), std::nullopt);
}

}  // namespace
}  // namespace ucp::megatron
