#include "runtime/executor/share_run.h"

#include <utility>

#include "compiler/plan/codec.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<PlannedRun> ShareRun(Communicator& ranks, llvm::Expected<PlannedRun> of_first_rank) {
  if (ranks.size() == 1) return of_first_rank;
  const bool is_first = ranks.rank() == 0;
  std::string encoded;
  llvm::Error error = of_first_rank.takeError();
  if (!error && is_first) {
    llvm::Expected<std::string> plan = EncodePlan(of_first_rank->plan);
    if (plan) encoded = std::move(*plan);
    error = plan.takeError();
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(encoded, FromFirstRank(ranks, encoded));
  UCP_ASSIGN_OR_RETURN(std::string folder, FromFirstRank(ranks, of_first_rank->source_folder));
  llvm::Expected<Plan> plan = is_first ? Plan() : DecodePlan(encoded);
  UCP_RETURN_IF_ERROR(Agree(ranks, plan ? llvm::Error::success() : plan.takeError()));
  if (is_first) return of_first_rank;
  return PlannedRun{std::move(*plan), std::move(folder)};
}

}  // namespace ucp
