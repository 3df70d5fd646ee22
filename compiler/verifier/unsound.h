// The error by which the parts of the verifier refuse a plan.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "compiler/support/error.h"

namespace ucp {

template <typename... Args>
llvm::Error Unsound(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kBadData, "the plan is not sound: {}", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ucp
