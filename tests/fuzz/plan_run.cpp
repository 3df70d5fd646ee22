// A plan file for a real checkpoint, which somebody has changed: it is refused, or the run writes what the honest plan
// writes. Half of the inputs are bytes of the file, in an envelope that fits; of the others only the hash counts, which
// says what is changed in the plan's tables.
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "tests/fuzz/target.h"
#include "tests/unit/runtime/driver/mutated_plans.h"
#include "tests/unit/runtime/driver/plan_judge.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ucp::PlanJudge judge({.fixture = "zero1_dp2", .spec = "", .target = "deepspeed:dp=3,zero=2"});
  const std::string_view text = ucp::fuzz::Text(data, size);
  ucp::oracle::Random random(ucp::ContentHash64(text));
  const ucp::MutatedPlan plan = random() % 2 == 0 ? ucp::MutatedPlan{"bytes", ucp::WithTrueEnvelope(std::string(text))}
                                                  : ucp::MutateTables(judge.honest(), random);
  const ucp::Judgement judgement = judge.Judge(plan.file, /*is_trusted=*/false);
  UCP_CHECK(judgement.difference.empty(), "after damage to {}, {}", plan.what, judgement.difference);
  return 0;
}
