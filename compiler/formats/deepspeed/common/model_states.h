// One model-states file of DeepSpeed's engine (`mp_rank_XX_model_states.pt`) as plain data. Its native and its
// universal checkpoints both have them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/common/autoep_layers.h"
#include "compiler/formats/deepspeed/common/folding.h"
#include "compiler/formats/source_archives.h"
#include "compiler/layout/inventory.h"

namespace ucp {

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
  auto operator<=>(const NamedShape&) const = default;
};

// "[2, 3]", for messages.
std::string ShapeText(const std::vector<std::int64_t>& shape);

// Tensors of a module under their full names, and its entries that are not tensors.
struct ModuleEntries {
  std::vector<std::pair<std::string, TensorPlace>> tensors;
  std::vector<pytorch::Entry> extras;
};

// A text, a number, true or false.
bool IsPlain(const pytorch::Value& value);

// Its rank is filled in when the degrees are known.
struct ModelStates : Speaker {
  std::vector<std::vector<NamedShape>> param_shapes;  // By optimizer group, in flattening order.
  bool has_param_shapes = false;                      // In this file.
  bool shapes_are_of_optimizer = false;               // Its files had them: DeepSpeed before 0.6.0.
  bool has_module = false;                            // A pipeline has none: its weights are in layer files.
  ModuleEntries module;
  ModuleEntries frozen_fragments;
  std::map<std::string, std::vector<std::int64_t>> frozen_shapes;
  bool lists_no_frozen = false;  // Not even that there are none: below stage 2, or saved without them.
  std::set<std::string> buffer_names;
  std::map<std::string, std::string> shared_params;
  std::vector<std::int64_t> num_experts;   // Of each layer that has experts.
  std::vector<AutoEpLayer> autoep_layers;  // Those whose experts AutoEP spreads.
  std::optional<Folding> folding;          // Beside them, if tensor-parallel ranks share experts out.
  std::optional<std::int64_t> mp_world_size;
  std::optional<std::int64_t> pp_degree;
  std::optional<std::int64_t> tp_degree;
  std::vector<pytorch::Entry> engine;  // Entries that the engine counts and restores.
  std::vector<pytorch::Entry> client;  // Entries that the training script added.
  std::string client_path;             // Whose client state and extras these are, if another file's; else empty.
};

// In a native checkpoint, `param_shapes` is the authority on everything and must be there. Of a further partition of
// stage 3, `engine` and `client` have only the values that are compared with partition 0's, which are carried on.
enum class ModelStatesOf { kNativeCheckpoint, kFurtherPartition, kUniversalFolder };

// The reader of the entry `optimizer` while the file is open: without ZeRO the optimizer stands there.
using OptimizerVisitor = std::function<llvm::Error(const SourceArchive&, const pytorch::ValuePtr& optimizer)>;

// An entry that this version does not read is kUnsupported, and named; an optimizer too, if nobody visits it.
llvm::Expected<ModelStates> ReadModelStates(SourceArchives& archives, const std::string& path, ModelStatesOf of,
                                            const OptimizerVisitor& visit_optimizer = nullptr);

// Returns whether frozen parameters, if the model has any, were left out: from stage 2 on, DeepSpeed lists them
// otherwise.
bool ExcludesFrozen(const ModelStates& states);

// Returns the tensors of a state dict, nested dicts joined with dots: {'encoder': {'0.weight': …}} is
// "encoder.0.weight".
llvm::Expected<ModuleEntries> ReadModule(SourceArchives& archives, const SourceArchive& archive,
                                         const pytorch::ValuePtr& module, const std::string& prefix);

// A list of mappings from names to sizes, or one such mapping.
llvm::Expected<std::vector<NamedShape>> ReadShapes(const SourceArchive& archive, const pytorch::Value& value,
                                                   const std::string& what);

}  // namespace ucp
