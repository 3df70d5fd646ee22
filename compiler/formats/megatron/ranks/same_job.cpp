// A rank's folder that was copied over another's has shapes and settings that are right there as well.
#include "compiler/formats/megatron/ranks/same_job.h"

#include <fmt/format.h>

#include <array>

#include "compiler/formats/facts.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::ValuePtr;

// Arguments that must be the same in the files of all ranks.
constexpr std::array<const char*, 17> kOfAllRanks = {"tensor_model_parallel_size",
                                                     "pipeline_model_parallel_size",
                                                     "virtual_pipeline_model_parallel_size",
                                                     "data_parallel_size",
                                                     "num_layers",
                                                     "hidden_size",
                                                     "num_attention_heads",
                                                     "padded_vocab_size",
                                                     "swiglu",
                                                     "num_experts",
                                                     "expert_model_parallel_size",
                                                     "expert_tensor_parallel_size",
                                                     "moe_layer_freq",
                                                     "untie_embeddings_and_output_weights",
                                                     "use_distributed_optimizer",
                                                     "overlap_grad_reduce",
                                                     "ddp_bucket_size"};

}  // namespace

llvm::Error SameJob::Take(const SourceArchive& file) {
  if (first_file_.empty()) first_file_ = file.path;
  const ValuePtr args = pytorch::Find(file.root(), "args");
  std::map<std::string, Fact> facts;
  if (args) AddFacts("args", *args, file.path, facts);
  if (const auto process = Arguments(facts).Number("rank")) files_[*process].push_back(file.path);
  for (const char* name : kOfAllRanks) {
    const std::string path = fmt::format("args.{}", name);
    const auto first = first_.find(path);
    const auto other = facts.find(path);
    const bool are_alike = first == first_.end() || other == facts.end() ? first == first_.end() && other == facts.end()
                                                                         : first->second.value == other->second.value;
    if (are_alike) continue;
    const ValuePtr value = args ? pytorch::Find(*args, name) : nullptr;
    return Fail(ErrorCode::kBadData,
                "`{}`: `{}` is {} in `{}`, and another value in `{}`; the files are not of one checkpoint", folder_,
                path, value ? pytorch::Print(*value) : "missing", file.path, first_file_);
  }
  return llvm::Error::success();
}

llvm::Error SameJob::CheckProcesses() const {
  for (const auto& [process, files] : files_) {
    if (files.size() < 2 || files_.size() < 2) continue;
    return Fail(ErrorCode::kBadData,
                "`{}`: `args.rank` is {} in `{}` and in `{}`, and a process saves one of them; one is a copy of the "
                "other, so copy the whole folder of the save again",
                folder_, process, files[0], files[1]);
  }
  return llvm::Error::success();
}

}  // namespace ucp::megatron
