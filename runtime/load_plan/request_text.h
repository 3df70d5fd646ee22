// The request of a job as one text: ranks compare theirs before they load together (agree_on_request.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/compile/compile.h"

namespace ucp {

// "`folder` as `universal` with spec `llama`, layers = 4, verified": all of a source that decides a plan, with every
// value in full, `target` unless that is empty, and `more`.
std::string RequestText(const SourceRequest& source, const std::string& target, const std::vector<std::string>& more);

}  // namespace ucp
