// How each tensor is cut, as far as headers and embedded metadata tell. The rest stays a question.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/infer/observed.h"
#include "compiler/infer/reading.h"
#include "compiler/layout/embedded_layout.h"

namespace ucp {

struct Decision {
  const ObservedTensor* tensor = nullptr;
  std::vector<Reading> readings;  // One: that is it. Several: nothing tells which.
  std::string question;           // Set if there are several readings, or if the one has to be looked at.
  bool by_map = false;            // An affine map of the checkpoint says it.
};

// `embedded` is the checkpoint's own statement about its cuts; null if it says nothing. The answers of affine maps come
// first, then DeepSpeed's patterns by its own precedence, then shapes. A pattern that RE2 does not know, or two
// patterns of one kind that match one name, are an error, as in DeepSpeed.
llvm::Expected<std::vector<Decision>> Decide(const Observation& observation, const EmbeddedLayout* embedded);

}  // namespace ucp
