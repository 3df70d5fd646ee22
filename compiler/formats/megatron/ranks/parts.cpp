#include "compiler/formats/megatron/ranks/parts.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/formats/megatron/ranks/old_models.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::ValuePtr;

constexpr std::string_view kModel = "model";

// `before`: the names of the dicts around the entry, each with a dot behind it; empty in a model of Megatron Core.
llvm::Error TakeValue(SourceArchives& archives, const SourceArchive& file, const pytorch::Entry& entry,
                      const std::string& before, ModelPart& part) {
  const auto key = pytorch::AsText(*entry.key);
  const std::string path = fmt::format("{}{}", before, key.value_or(""));
  const auto name = before.empty() ? std::optional(path) : NameInCore(path);
  const auto* tensor = entry.value->As<pytorch::Tensor>();
  if (key && name && name->ends_with("._extra_state")) {
    UCP_ASSIGN_OR_RETURN(ValuePtr value, archives.Keep(file, entry.value, fmt::format("`{}`", path)));
    part.extras.push_back({pytorch::MakeText(*name), std::move(value)});
    return llvm::Error::success();
  }
  if (!key || !name || tensor == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "`{}` in the model of `{}` is not a tensor of Megatron Core, or of a GPT from before Megatron Core; "
                "convert the checkpoint with Megatron-LM's tools/checkpoint",
                path, file.readable->path());
  }
  const TensorPlace& place = part.tensors.emplace_back(LocalTensor{*name, archives.PlaceOf(file, *tensor)}).place;
  if (place.elements <= place.record_elements) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "`{}` in `{}` has more elements than are stored for it", path,
              file.readable->path());
}

// `seen`: dicts of the model, each of which stands once.
llvm::Error TakeValues(SourceArchives& archives, const SourceArchive& file, const pytorch::Value& values,
                       const std::string& before, std::set<std::string>& seen, ModelPart& part) {
  const auto* entries = pytorch::Entries(values);
  for (const pytorch::Entry& entry : entries == nullptr ? std::vector<pytorch::Entry>() : *entries) {
    const std::string path = fmt::format("{}{}", before, pytorch::AsText(*entry.key).value_or(""));
    if (!IsPartOfOldModel(path)) {
      UCP_RETURN_IF_ERROR(TakeValue(archives, file, entry, before, part));
      continue;
    }
    if (!seen.insert(path).second) {
      return Fail(ErrorCode::kBadData, "`{}` stands twice in the model of `{}`", path, file.readable->path());
    }
    part.is_old = true;
    UCP_RETURN_IF_ERROR(TakeValues(archives, file, *entry.value, path + ".", seen, part));
  }
  return llvm::Error::success();
}

llvm::Expected<ModelPart> ReadPart(SourceArchives& archives, const SourceArchive& file, const std::string& key,
                                   const pytorch::Value& model) {
  ModelPart part;
  std::set<std::string> seen;
  UCP_RETURN_IF_ERROR(TakeValues(archives, file, model, "", seen, part));
  if (!part.tensors.empty()) return part;
  return Fail(ErrorCode::kUnsupported,
              "`{}` in `{}` holds no tensors of a model, and stages without layers are not read; load the checkpoint "
              "with Megatron-LM, and save it as `torch_dist`",
              key, file.readable->path());
}

}  // namespace

bool IsModel(std::string_view key) {
  return key.starts_with(kModel) && key.find_first_not_of("0123456789", kModel.size()) == key.npos;
}

llvm::Expected<std::vector<ModelPart>> ReadParts(SourceArchives& archives, const SourceArchive& file) {
  std::map<std::string_view, ValuePtr> models;
  for (const pytorch::Entry& entry : *pytorch::Entries(file.root())) {
    const std::string_view key = pytorch::AsText(*entry.key).value_or("");
    if (IsModel(key)) models.try_emplace(key, entry.value);
  }
  std::vector<ModelPart> parts;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const bool is_alone = models.size() == 1 && models.contains(kModel);
    const std::string key = is_alone ? std::string(kModel) : fmt::format("{}{}", kModel, i);
    const auto model = models.find(key);
    if (model == models.end()) {
      return Fail(ErrorCode::kBadData, "`{}` holds {} parts of the model, and `{}` is not among them",
                  file.readable->path(), models.size(), key);
    }
    UCP_ASSIGN_OR_RETURN(ModelPart part, ReadPart(archives, file, key, *model->second));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace ucp::megatron
