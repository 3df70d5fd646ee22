// What a conversion did, for people, and as one JSON object.
#pragma once

#include "compiler/plan/plan.h"
#include "runtime/convert/conversion.h"

namespace ucp {

// A line if an earlier run had begun.
void PrintWhatWasDoneBefore(const ExecutionReport& report);

// For those who follow events, as the last one.
void PrintReport(const Plan& plan, const ConversionOutcome& outcome, const ConversionOptions& options, RunWatch& watch);

}  // namespace ucp
