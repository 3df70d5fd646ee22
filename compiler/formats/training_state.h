// The state that a job needs to resume besides the elements of its tensors: hyper-parameters, step counters, the
// scheduler, the loss scaler, and what the training script itself put into the checkpoint. The same for all formats,
// and loss-free: an entry that we do not understand is a value that is carried on as it was.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/loose_states.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/dtype.h"
#include "compiler/layout/storage.h"

namespace ucp {

class FormatState;  // format_state.h

// The elements of small tensors that stand inside values: 0-dimensional steps, states of random generators. Inside a
// TrainingState, every tensor is the whole of a storage, whose key leads to one of these or to a large tensor.
struct SmallTensorData {
  DType dtype = DType::kFloat32;
  std::string bytes;
  bool operator==(const SmallTensorData&) const = default;
};

// One whose elements are not read but moved by the plan: averaged weights of a callback.
struct LargeTensor {
  std::string name;  // Under which a plan moves it; no tensor of the model has it.
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<Shard> shards;      // Where it lies in the source. Their names and kinds are those of the tensor.
  std::vector<ProductSet> boxes;  // By a shard's place on kBoxAxis. Empty: a shard is all of it.
};
// Returns one that begins at element `base` of the buffer of `states`. `strides` may be empty: row-major.
LargeTensor MakeLargeTensor(std::string name, DType dtype, std::vector<std::int64_t> sizes,
                            std::vector<std::int64_t> strides, BufferSetId states, std::int64_t base);

// Where a source has a value, for the report.
struct ValueOrigin {
  std::string file;  // Relative to the checkpoint's folder.
  std::string path;  // The keys that lead to it, joined with dots; empty: the whole pickle.
};

// One param_group of the optimizer, over all pipeline stages.
struct OptimizerGroup {
  pytorch::ValuePtr hyper_parameters;  // A dict of everything but the parameters. Never null.
  pytorch::ValuePtr step;              // An integer or a tensor of one element; null if this optimizer counts none.
  // In the order in which the optimizer was given them, stage after stage.
  std::vector<std::string> parameters;
};

// The state that one model-parallel rank saved for itself.
struct RankState {
  std::vector<pytorch::Entry> client;         // The training script's own entries: rng_state, args, iteration, …
  std::vector<pytorch::Entry> module_extras;  // Entries of the module that are not tensors (`_extra_state`), by name.
  ValueOrigin client_origin;
  ValueOrigin module_origin;
};

struct TrainingState {
  bool is_synthetic = false;  // It was made up from a spec, and saved by nobody.
  std::string tag;            // The checkpoint's own name: "global_step4".
  std::vector<OptimizerGroup> groups;
  // Everything else in the optimizer's file: loss_scaler, dynamic_loss_scale, overflow, clip_grad, …
  std::vector<pytorch::Entry> optimizer;
  // The engine's own counts and settings: global_steps, skipped_steps, lr_scheduler, its configuration, ….
  std::vector<pytorch::Entry> engine;
  ValueOrigin groups_origin;  // Of the list of groups.
  ValueOrigin optimizer_origin;
  ValueOrigin engine_origin;
  std::vector<RankState> ranks;                // By model-parallel rank (pipeline major). Never empty.
  std::size_t counting_rank = 0;               // The index of the one that counts for a target that has other ranks.
  std::map<std::string, std::string> aliases;  // A second name of a tensor (shared parameters).
  std::string order_doubt;                     // Why the order of the groups' parameters is not known; empty if it is.
  bool has_unread_optimizer = false;           // There is one, or should be, which `absent_optimizer` says of.
  std::string absent_optimizer;          // Why only weights could be read, as a sentence; empty if it has an optimizer.
  std::vector<LooseState> loose_states;  // Of the optimizer, beside those in the inventory's shards.
  std::vector<SmallTensorData> small_tensors;
  std::vector<LargeTensor> large_tensors;
  std::shared_ptr<const FormatState> format_state;  // The part that one family of formats understands; may be null.
};

// Returns the value of a text key; null if there is none.
pytorch::ValuePtr FindEntry(const std::vector<pytorch::Entry>& entries, std::string_view key);

// Returns the name in messages of the checkpoint that all this is of: "the source", or "the synthetic model".
std::string_view CalledInMessages(const TrainingState& training);

// Adds one to a training state; returns the key of its storage there.
std::string AddTensor(TrainingState& training, SmallTensorData data);
std::string AddTensor(TrainingState& training, LargeTensor tensor);
// Returns the data of a tensor of this training state; null if it is none of these.
const SmallTensorData* FindSmallTensor(const TrainingState& training, const pytorch::Tensor& tensor);
const LargeTensor* FindLargeTensor(const TrainingState& training, const pytorch::Tensor& tensor);

// Returns a step counter as a number: an integer, or a tensor of one element in `training`. Returns nothing if it is
// neither.
std::optional<double> StepNumber(const TrainingState& training, const pytorch::Value& step);

// "4", "4 (float32)", "missing"
std::string StepText(const TrainingState& training, const pytorch::ValuePtr& step);

// Returns whether two steps of one training state are the same in value and in type. Null is also a step.
bool IsSameStep(const pytorch::ValuePtr& a, const pytorch::ValuePtr& b);

// Fails (kBadData) if two step counters differ in value or in type, with both files and both values.
[[nodiscard]] llvm::Error CheckSameStep(const TrainingState& training, const pytorch::ValuePtr& a,
                                        const std::string& a_path, const pytorch::ValuePtr& b,
                                        const std::string& b_path);

}  // namespace ucp
