// The identity of the checkpoint that was read, with which every report begins, so that a wrong one is seen.
#pragma once

#include <llvm/Support/JSON.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/mesh.h"

namespace ucp {

struct CheckpointIdentity {
  std::string folder;          // The checkpoint proper.
  std::string tag;             // Its own name; empty for a model, which has none.
  std::string format;          // "deepspeed"; empty where nothing was read.
  std::string version;         // Of the framework that wrote it, DeepSpeed; empty: it does not say.
  std::optional<double> step;  // That training had reached; nothing: it does not say.
  Mesh ranks;                  // Its degrees; no axes where tensors are whole.
};

// Two lines (none where nothing was read), whose first begins with `label` in a column of `width` characters. The
// second names the known facts:
//
//   source   checkpoints/global_step9
//            deepspeed, tag global_step9, DeepSpeed 0.19.8, step 9, pp=1 dp=2 tp=1
std::vector<std::string> IdentityLines(const CheckpointIdentity& source, const std::string& label = "source",
                                       std::size_t width = 9);

// {"folder", "tag", "format", "framework_version", "step", "ranks"}; an unknown fact is null.
llvm::json::Object IdentityJson(const CheckpointIdentity& source);

}  // namespace ucp
