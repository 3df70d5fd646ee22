#include "compiler/formats/agreement.h"

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kMostDecisions = 64;  // Between two files, of one thing.

llvm::Error Decide(Inventory& inventory, const std::string& what, const Speaker& a, const std::string& a_text,
                   const Speaker& b, const std::string& b_text) {
  const RankPreference& preference = inventory.preference;
  if (preference.Prefers(a.rank) && !preference.Prefers(b.rank)) {
    inventory.decisions.push_back({what, a_text, a.path, b_text, b.path, 0});
    return llvm::Error::success();
  }
  const std::string hint = PreferenceHint(a.rank, b.rank);
  return Fail(ErrorCode::kBadData, "`{}`: {} is {} in `{}` and {} in `{}`; these files are not of one checkpoint{}",
              inventory.root, what, a_text, a.path, b_text, b.path, hint.empty() ? "" : "; if they are, " + hint);
}

}  // namespace

llvm::Error CheckAlike(Inventory& inventory, const std::string& what, const Speaker& a,
                       const pytorch::ValuePtr& a_value, const Speaker& b, const pytorch::ValuePtr& b_value,
                       pytorch::ListLengths lengths) {
  for (const pytorch::ValueDifference& found : pytorch::DifferencesOf(a_value, b_value, lengths, kMostDecisions)) {
    const std::string named = found.keys.empty() ? what : fmt::format("`{}` in {}", found.keys, what);
    UCP_RETURN_IF_ERROR(Decide(inventory, named, a, found.a, b, found.b));
  }
  return llvm::Error::success();
}

llvm::Error CheckStepAlike(Inventory& inventory, const TrainingState& training, const Speaker& a,
                           const pytorch::ValuePtr& a_step, const Speaker& b, const pytorch::ValuePtr& b_step) {
  if (IsSameStep(a_step, b_step)) return llvm::Error::success();
  return Decide(inventory, "the optimizer's step", a, StepText(training, a_step), b, StepText(training, b_step));
}

llvm::Error CheckSameText(const std::string& folder, const std::string& what, const std::string& a,
                          const std::string& a_path, const std::string& b, const std::string& b_path) {
  if (a == b) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}`: {} is {} in `{}` and {} in `{}`; these files are not of one checkpoint",
              folder, what, a, a_path, b, b_path);
}

}  // namespace ucp
