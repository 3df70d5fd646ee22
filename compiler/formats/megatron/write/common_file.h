// The part of a target that is for all ranks: `common.pt`, and the name of the folder.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/megatron/write/optimizers.h"
#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/formats/training_state.h"

namespace ucp::megatron {

// The release of a model without a training; a tracker file names it so.
inline constexpr const char* kRelease = "release";

inline constexpr const char* kTracker = "latest_checkpointed_iteration.txt";

// Returns whether an entry is one of the objects that ranks or layers share, by its key: "rng_state/shard_0.1_2.2".
bool IsObjectKey(std::string_view key);

// Returns the iteration that the tag names, as "iter_0001000" does, or that an entry of the training script says;
// nothing if neither does.
std::optional<std::int64_t> IterationOf(const TrainingState& training);
// "iter_0001000", and "release" without an iteration.
std::string FolderOf(std::optional<std::int64_t> iteration);

// Returns the text of the tracker file.
std::string TrackerText(const TrainingState& training);

// Fails (kUnsupported) with all that Megatron Core's optimizer or training script asks for and the source lacks.
[[nodiscard]] llvm::Error CheckOptimizerIsWhole(const TrainingState& training);

// Returns the dict, made of values of `composer`. `client`: the entries of the training script. Of weights alone it has
// no more than Megatron Core asks for. `optimizers` is empty if the target has none.
pytorch::ValuePtr ComposeCommon(const TrainingState& training, const std::vector<pytorch::Entry>& client,
                                const TargetOptions& options, const Optimizers& optimizers, ArchiveComposer& composer);

// Returns the groups of one optimizer as the object that each rank has of its own (kOwnBuffers).
pytorch::ValuePtr ComposeOwnGroups(const TrainingState& training, std::span<const OptimizerGroup> of_optimizer,
                                   ArchiveComposer& composer);

}  // namespace ucp::megatron
