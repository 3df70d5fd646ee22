#include "compiler/formats/deepspeed/native/write/job/adagrad.h"

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {

llvm::Error CheckAdagradRuns(const TrainingState& training, const WriteOptions& options) {
  if (options.stage == 0 || options.bf16_optimizer || training.groups.empty()) return llvm::Error::success();
  const pytorch::Value& said = *training.groups.front().hyper_parameters;  // DeepSpeed's own Adagrad has neither.
  if (!pytorch::Find(said, "lr_decay") || !pytorch::Find(said, "initial_accumulator_value")) {
    return llvm::Error::success();
  }
  if (options.stage == 3) {
    return Fail(ErrorCode::kUnsupported,
                "zero=3: DeepSpeed loads no checkpoint of PyTorch's Adagrad at this stage, not even its own; take "
                "zero=1 or zero=2");
  }
  if (training.groups.size() == 1) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "zero={}: the source has {} groups of PyTorch's Adagrad, and with ZeRO, DeepSpeed runs one alone; take "
              "zero=0",
              options.stage, training.groups.size());
}

}  // namespace ucp::deepspeed
