// The request for a conversion.
#pragma once

#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/planner/planner.h"

namespace ucp {

// Settings of a target beside its strategy.
struct TargetSettings {
  std::string tag;                       // The target's own name; empty: the source's.
  std::vector<std::string> keep_opaque;  // "module.Class": objects that the user vouches for (known_training.h).
  std::string job_config;                // A file that the target's format interprets; empty: the source's own counts.
};

// A conversion to the files of a format.
struct CompileRequest {
  SourceRequest source;
  std::string target;  // A strategy: "universal:mp=4", or the name that the spec gives it.
  TargetSettings settings;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  unsigned threads = 1;
  bool hashes_plan = false;  // Compiled::plan_hash is wanted.
};

}  // namespace ucp
