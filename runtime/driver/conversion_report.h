// What a conversion did, for people, and as one JSON object.
#pragma once

#include "runtime/convert/conversion.h"
#include "runtime/executor/share_run.h"

namespace ucp {

// A line if an earlier run had begun.
void PrintWhatWasDoneBefore(const ExecutionReport& report);

// For those who follow events, as the last one.
void PrintReport(const PlannedRun& run, const ConversionOutcome& outcome, const ConversionOptions& options,
                 RunWatch& watch);

}  // namespace ucp
