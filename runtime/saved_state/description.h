// The state that a checkpoint holds, without the elements of its tensors: names, shapes, hyper-parameters, steps and
// the training script's own entries. For a caller who serves these to a framework's own loader (ucp.torch in Python).
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp {

// An entry that the training script, its engine or its module saved under a text.
struct SavedEntry {
  std::string name;
  bool is_of_module = false;
  pytorch::ValuePtr value;
};

struct Description {
  std::vector<LogicalTensor> tensors;                  // Sorted by name.
  std::vector<std::vector<std::string>> second_names;  // Of each.
  TrainingState training;
  // The script's own entries of the rank that counts, of the engine's those that other frameworks have too, and the
  // module's if one rank saved them: nothing says how those of several ranks would go together.
  std::vector<SavedEntry> entries;
};

// Headers only.
llvm::Expected<Description> Describe(ReadableFileSystem& files, const SourceRequest& request);

std::set<std::string> LooseStateNames(const Description& description);
// Returns nothing if the group counts no steps.
std::optional<double> StepOf(const Description& description, const OptimizerGroup& group);

}  // namespace ucp
