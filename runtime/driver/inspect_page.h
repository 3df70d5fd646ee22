// The output of `ucprun inspect --html`: a page of what a checkpoint holds, and which rank has how much of it.
#pragma once

#include <string>

#include "runtime/inspect/inspection.h"

namespace ucp {

// Of PageKind::kInspect (compiler/page/page.h).
std::string InspectionAsPage(const Inspection& inspection);

}  // namespace ucp
