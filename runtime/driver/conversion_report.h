// The report of a conversion, for people, and as one JSON object.
#pragma once

#include "runtime/command_line/conversion_command.h"
#include "runtime/engine/share_run.h"

namespace ucp {

// A line if an earlier run had begun.
void PrintWhatWasDoneBefore(const ExecutionReport& report);

// Prints the report, and adds it to the events as the last one.
void PrintReport(const PlannedRun& run, const WatchedOutcome& outcome, const ConversionCommand& options,
                 RunWatch& watch);

}  // namespace ucp
