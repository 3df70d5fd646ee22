// The report of `ucprun inspect --objects`.
#pragma once

#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

#include "runtime/inspect/scan_objects.h"

namespace ucp {

// Returns a line for each name, those that are not known first, then the files that could not be read, then a verdict.
std::vector<std::string> ObjectLines(const ObjectScan& scan);
llvm::json::Object ObjectsJson(const ObjectScan& scan);

}  // namespace ucp
