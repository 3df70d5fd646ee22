// The findings of `ucprun trace`, as text and as JSON.
#pragma once

#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/trace/element_name.h"
#include "runtime/trace/trace_element.h"

namespace ucp {

struct TraceReport {
  const Plan& plan;
  TensorId tensor;
  Index index;
  ElementTrace trace;
  bool has_target = false;  // The plan is a conversion, and what it writes is of interest.
};

// Copies that were asked and differ, and are not overruled.
std::uint64_t CountDifferences(const ElementTrace& trace);

std::vector<std::string> TraceLines(const TraceReport& report);
llvm::json::Object TraceJson(const TraceReport& report);

}  // namespace ucp
