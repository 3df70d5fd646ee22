// The verifier relies on this: written shards of one signature have the same steps, but for where their bytes lie.
#include "compiler/verifier/step_signature.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <map>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {
namespace {

// The steps that fill a state of a shard, in local elements on both sides.
std::string StepsOf(const Plan& plan, const StepEnumerator& steps, const StateFeeds& feeds, std::size_t first_read,
                    std::size_t write, TensorId tensor, const StateBuffer& state) {
  std::string text;
  ForEachTargetRangeOf(plan, feeds, write, state, [&](const TargetRange& range) {
    text += fmt::format("[{}, {})", range.begin, range.end);
    steps.ForEachStepOf(tensor, range, [&](const Step& step) {
      text += fmt::format(" {} of {} for {}, to {}, {} long", static_cast<int>(step.role), step.read - first_read,
                          step.term, step.target_element - range.record_element + range.begin, step.run_elements);
      for (const StepLoop& loop : step.loops) {
        text += fmt::format(" x{}+{}+{}", loop.count, loop.source_stride, loop.target_stride);
      }
      for (const Progression* p : step.box) {
        text += fmt::format(" {}:{}:{}x{}", p->logical_begin, p->source_begin, p->length, p->count);
      }
    });
  });
  return text;
}

TEST(StepSignatureTest, ShardsOfOneSignatureHaveTheSameSteps) {
  std::uint64_t seed = TestSeed();
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int alike = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    Conversion conversion = Pick(random, 0, 2) == 0 ? RandomFusedConversion(random) : RandomConversion(random);
    // The same tensors once more: they lie elsewhere in the buffers, and are cut there.
    const std::size_t tensors = conversion.source.size();
    for (std::size_t t = 0; t < tensors; ++t) {
      conversion.source.push_back(conversion.source[t]);
      conversion.target.push_back(conversion.target[t]);
    }
    RoundSome(conversion, random);
    auto compiled = Compile(conversion);
    if (!compiled) {
      llvm::consumeError(compiled.takeError());
      continue;
    }
    SCOPED_TRACE(ToString(conversion));
    const Plan& plan = compiled->plan;
    const StepEnumerator steps(plan);
    const StateFeeds feeds(plan);
    const StepSignatures signatures(plan, steps);
    std::map<StepSignature, std::string> known;
    for (std::size_t w = 0; w < plan.writes.size(); ++w) {
      for (const StateBuffer& state : plan.target.buffer_set(plan.writes[w].states)) {
        for (const WrittenPiece& piece : plan.writes[w].pieces) {
          const StepEnumerator::Reads reads = steps.ReadsFor(plan.writes[w], piece.tensor);
          std::optional<StepSignature> signature = signatures.Of(w, piece.tensor, state, reads);
          if (!signature) continue;
          const std::size_t first = reads.empty() ? 0 : reads.front();
          const std::string here = StepsOf(plan, steps, feeds, first, w, piece.tensor, state);
          auto [entry, is_new] = known.emplace(*signature, here);
          ASSERT_EQ(entry->second, here);
          alike += is_new ? 0 : 1;
        }
      }
    }
  }
  std::printf("%d shards had the signature of another\n", alike);
  EXPECT_GT(alike, 100);
}

}  // namespace
}  // namespace ucp::oracle
