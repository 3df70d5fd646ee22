// A user's request for a source, as texts: typed on a command line, or given from Python.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"

namespace ucp {

struct SourceTexts {
  std::string path;
  std::string spec;                      // As in SourceRequest, and so is the next.
  std::string config;                    // A config.json; empty for the one in the checkpoint.
  std::vector<std::string> set;          // "layers=4"
  std::vector<std::string> unused;       // "lm_head.weight=last"
  std::vector<std::string> drop_states;  // "exp_avg"
  std::string prefer_rank;               // "dp=0,tp=1"; empty for none.
  bool repairs = false;                  // As in SourceRequest.

  // Fails with kUsage for a text without a meaning.
  llvm::Expected<SourceRequest> Request() const;
};

}  // namespace ucp
