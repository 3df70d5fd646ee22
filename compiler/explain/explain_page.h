// An explanation as one self-contained HTML page: a table of all tensors that can be filtered, and for one of them who
// holds which box, source beside target.
#pragma once

#include <string>

#include "compiler/explain/explain.h"

namespace ucp {

// Of PageKind::kExplain (compiler/page/page.h).
std::string ExplainAsPage(const Explanation& explanation);

}  // namespace ucp
