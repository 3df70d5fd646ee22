#include "runtime/formats/format.h"

#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/formats/deepspeed/deepspeed.h"
#include "runtime/formats/safetensors/safetensors.h"
#include "runtime/formats/universal/universal.h"

namespace ucp {

std::span<const std::unique_ptr<const Format>> AllFormats() {
  static const std::vector<std::unique_ptr<const Format>> formats = [] {
    std::vector<std::unique_ptr<const Format>> list;
    list.push_back(MakeDeepSpeedFormat());
    list.push_back(MakeUniversalFormat());
    // Last: a trainer's folder can hold the model beside the checkpoint that trains on.
    list.push_back(MakeSafetensorsFormat());
    return list;
  }();
  return formats;
}

const Format* FindFormat(std::string_view name) {
  for (const auto& format : AllFormats()) {
    if (format->name() == name) return format.get();
  }
  return nullptr;
}

// A root can hold a broken checkpoint of one format and a good one of another, so an error ends nothing until all have
// been asked.
llvm::Expected<Recognised> RecogniseAny(FileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind == PathKind::kMissing) return Fail(ErrorCode::kIo, "`{}` does not exist", path);
  std::optional<FailureText> first_failure;
  for (const auto& format : AllFormats()) {
    auto folder = format->Recognise(files, path);
    if (!folder) {
      FailureText failure = Describe(folder.takeError());
      if (!first_failure) first_failure = std::move(failure);
    } else if (*folder) {
      return Recognised{format.get(), **folder};
    }
  }
  if (first_failure) return MakeError(first_failure->code, first_failure->message);
  const std::string folder = kind == PathKind::kDirectory ? path : std::filesystem::path(path).parent_path().string();
  UCP_ASSIGN_OR_RETURN(PathKind index, files.Kind(JoinPath(folder, ".metadata")));
  if (index == PathKind::kFile) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}` was saved by torch.distributed.checkpoint (`.metadata` is its index), as by FSDP jobs: this version "
        "reads checkpoints of DeepSpeed, universal and safetensors folders",
        path);
  }
  return Fail(ErrorCode::kUnsupported,
              "`{}` is no checkpoint that this version knows: a DeepSpeed folder holds `mp_rank_*_model_states.pt` and "
              "`*_optim_states.pt` (its root a file `latest`), a universal one a folder `zero` (its root a file "
              "`latest_universal`), a safetensors one `model.safetensors` or `model.safetensors.index.json`",
              path);
}

}  // namespace ucp
