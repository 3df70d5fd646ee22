// The roles of the entries of a state dict. Frameworks nest a model's and an optimizer's state dict in dicts of their
// own:
//
//   TorchTitan              tok_embeddings.weight            optimizer.state.tok_embeddings.weight.exp_avg
//   a training script       model.embed.weight               optimizer.param_groups.0.lr
//   the same as Stateful    app.model.embed.weight           app.optim.state.embed.weight.exp_avg
//   Lightning               state_dict.embed.weight          optimizer_0.state.embed.weight.exp_avg
//
// The optimizer is found by the names of its parts, and the model by the parameters that the optimizer names.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"

namespace ucp::dcp {

// A tensor of the model, or a value among them (`_extra_state`), by its name without wrappers.
struct ModelEntry {
  std::string name;
  const Entry* entry = nullptr;
};

// "exp_avg" of a parameter.
struct StateEntry {
  std::string parameter;
  std::string state;
  const Entry* entry = nullptr;
};

// "lr" of a group, or of the group of one parameter; the whole list of groups, up to PyTorch 2.3.
struct GroupEntry {
  std::optional<std::int64_t> group;
  std::string parameter;       // Empty: `group` says it.
  std::vector<PathPart> path;  // "lr"; empty of the whole list.
  const Entry* entry = nullptr;
};

// An entry that is carried on as it is, below a path.
struct OtherEntry {
  std::vector<PathPart> path;
  const Entry* entry = nullptr;
};

struct Roles {
  std::vector<ModelEntry> tensors;  // In the order of the entries, as are all of these.
  std::vector<ModelEntry> extras;
  std::vector<StateEntry> states;
  std::vector<GroupEntry> groups;
  std::vector<OtherEntry> optimizer;
  std::vector<OtherEntry> others;
  bool has_optimizer = false;
  std::string model_prefix;      // Of the keys of the model's entries: "app.model"; empty at the root.
  std::string optimizer_prefix;  // "app.optim"
  std::string unread_optimizer;  // Why the optimizer's entries are not understood, as a sentence; empty if they are.
};

// The entries must outlive the result. Fails (kBadData) where two entries have one name without their wrappers, and
// (kUnsupported) for two optimizers.
llvm::Expected<Roles> FindRoles(std::span<const Entry> entries, bool has_paths);

}  // namespace ucp::dcp
