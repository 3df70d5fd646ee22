#include "runtime/formats/deepspeed/write/muon.h"

#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {

llvm::Error CheckMuonIsWritten(const TrainingState& training, const WriteOptions& options) {
  const bool keeps_parts = options.bf16_optimizer || (options.stage != 1 && options.stage != 2);
  for (std::size_t g = 0; g < training.groups.size() && !keeps_parts; ++g) {
    pytorch::ValuePtr use_muon = pytorch::Find(*training.groups[g].hyper_parameters, "use_muon");
    if (!use_muon || !pytorch::AsBool(*use_muon).value_or(false)) continue;
    return Fail(ErrorCode::kUnsupported,
                "group {} of the source's optimizer is Muon's, and at ZeRO stage {} every partition keeps its momentum "
                "for whole matrices, which this version does not write yet; convert to `universal`, or to "
                "optimizer=bf16",
                g, options.stage);
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
