// Values on which the ranks of a job must agree. Where they do not, the checkpoint is refused with both files and both
// values; but if the user said which rank to believe (--prefer-rank), that one counts, and the decision is kept for the
// report.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value_differences.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/inventory.h"

namespace ucp {

// The source of a statement: a file, and where its rank stands on the axes that tell such files apart.
struct Speaker {
  std::string path;
  Coordinate rank;
};

// `a` is the one that counts, by RankPreference::FirstOf() or because all are equal. `what` is in the words of the
// message: "`lr_scheduler`". Null is also a value.
[[nodiscard]] llvm::Error CheckAlike(Inventory& inventory, const std::string& what, const Speaker& a,
                                     const pytorch::ValuePtr& a_value, const Speaker& b,
                                     const pytorch::ValuePtr& b_value, pytorch::ListLengths lengths);

// Does the same for the steps of an optimizer, which are values of `training`.
[[nodiscard]] llvm::Error CheckStepAlike(Inventory& inventory, const TrainingState& training, const Speaker& a,
                                         const pytorch::ValuePtr& a_step, const Speaker& b,
                                         const pytorch::ValuePtr& b_step);

// Fails where nobody can be believed: degrees, shapes, names.
[[nodiscard]] llvm::Error CheckSameText(const std::string& folder, const std::string& what, const std::string& a,
                                        const std::string& a_path, const std::string& b, const std::string& b_path);

}  // namespace ucp
