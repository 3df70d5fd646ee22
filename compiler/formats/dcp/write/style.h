// How frameworks name the entries of their state dicts:
//
//   titan       layers.0.w                 optimizer | state.layers.0.w.exp_avg       (each parameter: its own groups)
//   app         app | model | layers.0.w   app | optim | state | layers.0.w | exp_avg
//   plain       model | layers.0.w         optimizer | state | layers.0.w | exp_avg
//   accelerate  the same, in two folders
//   lightning   state_dict | layers.0.w    optimizer_0 | state | layers.0.w | exp_avg, and everything else in `meta.pt`
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compiler/formats/dcp/write/entry_path.h"
#include "compiler/formats/dcp/write/machine_files.h"
#include "compiler/formats/dcp/write/part.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/training_state.h"

namespace ucp::dcp {

// The folders of Accelerate.
inline constexpr const char* kAccelerateModel = "pytorch_model_fsdp_0/";
inline constexpr const char* kAccelerateOptimizer = "optimizer_0/";

inline constexpr const char* kLightningFile = "meta.pt";

class Style {
 public:
  // Makes a style of one of the words of the setting `style`.
  explicit Style(std::string_view word);
  // Makes the style of a source: where its two dicts stand, and whether the keys of the optimizer's are joined.
  Style(EntryPath model, EntryPath optimizer, bool is_flat, bool has_two_folders, std::string other_file);

  // Returns the folders of the model's entries and of the optimizer's, with a slash at the end; "" is the checkpoint's
  // own.
  const std::string& model_folder() const { return model_folder_; }
  const std::string& optimizer_folder() const { return optimizer_folder_; }
  // Returns the file of all other entries; empty: they are entries as well.
  const std::string& other_file() const { return other_file_; }

  // Returns an entry of the model, by the name of the tensor.
  EntryPath Model(const std::string& name) const { return Below(model_, name); }
  // "exp_avg" of a parameter.
  EntryPath State(const std::string& parameter, const std::string& state) const;
  // Returns an entry of the optimizer's dict beside these.
  const EntryPath& optimizer() const { return optimizer_; }
  // Returns whether each parameter has hyper-parameters of its own, instead of its group.
  bool groups_by_parameter() const { return is_flat_; }
  EntryPath HyperParameter(const std::string& parameter, const std::string& name) const;
  EntryPath Groups() const { return Below(optimizer_, std::string("param_groups")); }

 private:
  EntryPath model_;
  EntryPath optimizer_ = {"optimizer"};
  bool is_flat_ = false;  // Keys of the optimizer's dict are joined already.
  std::string model_folder_;
  std::string optimizer_folder_;
  std::string other_file_;
};

// The names of a dcp folder, kept in the training state for a folder that is made of it.
struct KeptNames {
  Style style;
  std::set<std::string> engine_entries;  // Entries of TrainingState::engine that the folder itself had.
  std::optional<PartOfJob> part;         // If it is what one machine of a job holds.
  std::optional<MachineFiles> machines;  // If each machine of a job is to have a file of its own.
};
std::shared_ptr<const FormatState> Keep(KeptNames names);
// Null for sources of other formats.
const KeptNames* KeptNamesOf(const TrainingState& training);
// Null unless the source is a part of a job.
const PartOfJob* PartOf(const TrainingState& training);
// Null unless machines are to have files of their own.
const MachineFiles* MachineFilesOf(const TrainingState& training);

// Returns the style that a strategy names; without one, the source's, or TorchTitan's.
Style StyleOfTarget(const Strategy& strategy, const TrainingState& training);

}  // namespace ucp::dcp
