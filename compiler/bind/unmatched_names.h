// Reports names of a spec and of a checkpoint that differ. A misspelt pattern misses its tensors, and leaves as many
// that nothing declares: that is one mistake, and one message.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/bind/values/inventory_index.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/spec/spec.h"

namespace ucp {

// Tensors of the checkpoint that no pattern matches and whose names differ in their numbers only.
struct UnmatchedTensors {
  std::string skeleton;
  const FoundTensor* first = nullptr;
  std::size_t count = 0;
  bool explained = false;  // By the pattern that was meant to match them.
};

class UnmatchedGroups {
 public:
  void Add(const FoundTensor& tensor);
  std::vector<UnmatchedTensors> Finish() && { return std::move(groups_); }

 private:
  std::vector<UnmatchedTensors> groups_;
  std::unordered_map<std::string, std::size_t> by_skeleton_;
};

// The names of one declaration that the checkpoint lacks; at least one.
struct MissingTensors {
  const TensorDeclaration* declaration = nullptr;
  std::vector<const std::string*> names;
};

// Looks for tensors in `unmatched` that differ from a missing one in one segment only, and marks them as explained.
void ReportMissing(const MissingTensors& missing, const InventoryIndex& found, std::vector<UnmatchedTensors>& unmatched,
                   DiagnosticSink& sink);

// Shows the nearest pattern and the first segment that differs.
void ReportUnmatched(const CheckedSpec& spec, const UnmatchedTensors& unmatched, const InventoryIndex& found,
                     DiagnosticSink& sink);

}  // namespace ucp
