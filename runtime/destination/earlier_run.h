// The part of a journal's entry that does not say how far a run came: which run it was. A run goes on only from work of
// the same plan on the same source.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/plan/plan.h"

namespace ucp {

struct RunIdentity {
  std::string tool;    // ToolOfRuns()
  std::string source;  // SourceIdentity()
  std::string plan;    // ContentHash of the encoded plan.
  bool verifies_crc = true;
  std::string part = {};   // "part 2 of 3"; empty: the destination is in one piece.
  bool has_source = true;  // For messages; not compared.
};

// ToolName() and the version of the digests that it adds up: an entry has sums of them.
std::string ToolOfRuns();

std::string ComposeEntry(const RunIdentity& identity, const std::string& progress);

// Returns the progress of an entry that a run of the same identity wrote to `destination`. Otherwise the error says
// what is another, with both values (kUsage).
llvm::Expected<std::string> ProgressOf(const std::string& entry, const RunIdentity& identity,
                                       const std::string& destination);

}  // namespace ucp
