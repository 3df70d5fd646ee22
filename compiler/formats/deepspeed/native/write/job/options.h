// The settings of a strategy for a native checkpoint: over how many ranks it is cut, and which of DeepSpeed's
// optimizers will load it. Settings that the strategy leaves open are as the source's own `ds_config` has them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/strategy.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/dtype.h"

namespace ucp::deepspeed {

// Without ZeRO, the wrapper that the engine puts around an optimizer in float16 and bfloat16. In float32 there is none.
enum class WholeWrapper {
  kNone,
  kFused,    // FP16_Optimizer, around FusedAdam: a flat master for each group.
  kUnfused,  // FP16_UnfusedOptimizer, around any other: a master for each parameter.
};

struct WriteOptions {
  std::int64_t pp = 1;
  std::int64_t tp = 1;
  std::int64_t dp = 1;  // Of the partitions: data-parallel times sequence-parallel ranks.
  std::int64_t sp = 1;
  std::int64_t ep = 1;              // Over how many ranks the experts are shared out.
  std::optional<std::int64_t> edp;  // How many have the same ones, if the strategy says it.
  std::int64_t stage = 1;
  DType dtype = DType::kFloat32;                // The dtype in which the model computes.
  bool offloads_to_cpu = false;                 // The job keeps the optimizer's states there.
  bool says_offload = false;                    // `offload_optimizer` or `offload_param`, whatever the device.
  bool bf16_optimizer = false;                  // BF16_Optimizer's form, not that of stages 1 and 2.
  WholeWrapper wrapper = WholeWrapper::kNone;   // Stage 0.
  std::int64_t sub_group_size = 1'000'000'000;  // Stage 3: as many elements of a partition fill a sub-group.
  bool sub_group_size_is_chosen = false;        // By the strategy.
  bool round_robin = false;  // round_robin_gradients: parameters are dealt out to the partitions before flattening.
  bool data_before_experts = false;  // use_data_before_expert_parallelism: neighbours have the same experts.
  // enable_expert_tensor_parallelism: every tensor-parallel rank has its part of each expert. Without a value the
  // layout decides (experts.h).
  std::optional<bool> expert_tp;
  bool alignment = false;       // parameter_alignment: every parameter begins at a multiple of 16 bytes.
  bool elastic = false;         // elastic_checkpoint of the job. Stages 1 and 2.
  bool lists_states = false;    // Its form (elastic.h), which other jobs also load.
  bool exclude_frozen = false;  // As save_checkpoint(exclude_frozen_parameters=True) has it.

  // Model-parallel ranks count stages first: mp = stage * tp + tensor rank.
  std::int64_t mp() const { return pp * tp; }
  bool operator==(const WriteOptions&) const = default;
};

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // Of a sub-group's part.

// Returns whether the source has a configuration of its job, and whether that says a stage of ZeRO.
bool HasConfig(const TrainingState& training);
bool HasStage(const TrainingState& training);

// Returns the axes over which native files are cut. `edp` may be given and follows from them.
std::vector<std::string> TargetAxes();

// Returns the degrees alone, before anything else is known. Fails with kUsage for axes that ZeRO files do not know.
llvm::Expected<Degrees> DegreesToWrite(const Strategy& strategy);

// Fails with kUsage for settings that make no sense, or that nothing gives a value to; with kUnsupported for a job that
// DeepSpeed does not run.
llvm::Expected<WriteOptions> ReadWriteOptions(const Strategy& strategy, const TrainingState& training);

}  // namespace ucp::deepspeed
