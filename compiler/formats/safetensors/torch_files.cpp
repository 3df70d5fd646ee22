#include "compiler/formats/safetensors/torch_files.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/safetensors/index.h"
#include "compiler/formats/source_archives.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::safetensors {
namespace {

constexpr std::string_view kTorchStem = "pytorch_model";
constexpr const char* kTorchFile = "pytorch_model.bin";
constexpr const char* kTorchIndex = "pytorch_model.bin.index.json";
constexpr std::string_view kIndexEnd = ".bin.index.json";

class TorchModel {
 public:
  TorchModel(ReadableFileSystem& files, std::string root, Checkpoint& checkpoint)
      : files_(files),
        root_(std::move(root)),
        checkpoint_(checkpoint),
        archives_(files, root_, checkpoint.inventory.storage, checkpoint.training) {}

  llvm::Error Run(const std::string& name) {
    if (name.ends_with(kIndexEnd)) {
      UCP_RETURN_IF_ERROR(ReadIndexed(name));
    } else {
      UCP_RETURN_IF_ERROR(ReadFile(name));
    }
    checkpoint_.training.aliases = inventory().aliases;
    if (values_.empty()) return llvm::Error::success();
    inventory().remarks.push_back(fmt::format("{} entries (first `{}`) are values and not tensors; they are not read",
                                              values_.size(), values_.front()));
    return llvm::Error::success();
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }

  llvm::Error ReadIndexed(const std::string& name) {
    const std::string path = JoinPath(root_, name);
    UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files_, path, kMostIndexBytes));
    llvm::Expected<Index> index = ParseIndex(text);
    if (!index) return AddContext(index.takeError(), fmt::format("`{}`", path));
    std::set<std::string> names;
    for (const auto& [tensor, file] : index->file_of_tensor) names.insert(file);
    for (const std::string& file : names) UCP_RETURN_IF_ERROR(ReadFile(file));
    for (const auto& [tensor, file] : index->file_of_tensor) {
      const auto found = file_of_name_.find(tensor);
      if (found != file_of_name_.end() && found->second == file) continue;
      return Fail(ErrorCode::kBadData, "`{}` puts tensor `{}` into `{}`, which does not hold it", path, tensor, file);
    }
    return llvm::Error::success();
  }

  llvm::Error ReadFile(const std::string& name) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_ASSIGN_OR_RETURN(const SourceArchive archive, archives_.Open(name));
    const std::vector<pytorch::Entry>* entries = pytorch::Entries(archive.root());
    if (entries == nullptr) return RefuseForm(name, pytorch::ClassName(archive.root()));
    for (const pytorch::Entry& entry : *entries) {
      const auto key = pytorch::AsText(*entry.key);
      if (!key) return RefuseForm(name, "a dict with keys that are not texts");
      if (const auto* tensor = entry.value->As<pytorch::Tensor>()) {
        UCP_RETURN_IF_ERROR(Add(archive, std::string(*key), *tensor));
      } else {
        UCP_RETURN_IF_ERROR(SkipValue(name, std::string(*key), *entry.value));
      }
    }
    return llvm::Error::success();
  }

  llvm::Error RefuseForm(const std::string& name, const std::string& form) const {
    return Fail(ErrorCode::kUnsupported,
                "`{}` holds {}, and a model's file holds a dict of tensors by name, as torch.save(model.state_dict()) "
                "writes it",
                JoinPath(root_, name), form.empty() ? "a value of another form" : form);
  }

  llvm::Error SkipValue(const std::string& name, const std::string& key, const pytorch::Value& value) {
    const std::string made_by = pytorch::ClassName(value);
    if (!made_by.empty() || pytorch::Entries(value) != nullptr || pytorch::Items(value) != nullptr) {
      return RefuseForm(name,
                        fmt::format("`{}`, which is {} and not a tensor", key,
                                    made_by.empty() ? "a dict or a list" : fmt::format("an object of `{}`", made_by)));
    }
    values_.push_back(key);
    return llvm::Error::success();
  }

  llvm::Error Add(const SourceArchive& archive, const std::string& name, const pytorch::Tensor& tensor) {
    const auto [other, is_new] = file_of_name_.emplace(name, archive.path);
    if (!is_new) {
      return Fail(ErrorCode::kBadData, "`{}` and `{}` both hold a tensor `{}`", JoinPath(root_, other->second),
                  JoinPath(root_, archive.path), name);
    }
    const TensorPlace place = archives_.PlaceOf(archive, tensor);
    std::vector<std::pair<TensorPlace, std::string>>& there = of_record_[place.record];
    for (const auto& [first, first_name] : there) {
      if (place.elements == 0 || !first.IsSameMemory(place)) continue;
      inventory().aliases.emplace(name, first_name);
      return llvm::Error::success();
    }
    there.emplace_back(place, name);
    Shard shard;
    shard.tensor = name;
    shard.kind = TensorKind::kFrozen;
    shard.shape = place.sizes;
    shard.strides = place.strides;
    shard.base = place.offset;
    shard.states = archives_.BuffersOf(place, kWeightState);
    inventory().storage.shards.push_back(std::move(shard));
    return llvm::Error::success();
  }

  ReadableFileSystem& files_;
  const std::string root_;
  Checkpoint& checkpoint_;
  SourceArchives archives_;
  std::map<std::string, std::string> file_of_name_;
  std::map<RecordId, std::vector<std::pair<TensorPlace, std::string>>> of_record_;
  std::vector<std::string> values_;
};

}  // namespace

bool IsTorchName(std::string_view name) {
  if (!name.starts_with(kTorchStem)) return false;
  name.remove_prefix(kTorchStem.size());
  return (name.starts_with(".") || name.starts_with("-")) && (name.ends_with(".bin") || name.ends_with(kIndexEnd));
}

llvm::Expected<std::optional<std::string>> FindTorchModel(ReadableFileSystem& files, const std::string& folder) {
  std::optional<std::string> found;
  for (const char* name : {kTorchFile, kTorchIndex}) {
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(JoinPath(folder, name)));
    if (kind != PathKind::kFile) continue;
    if (found) {
      return Fail(ErrorCode::kBadData,
                  "`{}` holds both `{}` and `{}`, which are two models; name the file that is meant", folder, *found,
                  name);
    }
    found = name;
  }
  return found;
}

llvm::Error AddTorchModel(ReadableFileSystem& files, const std::string& root, const std::string& name,
                          Checkpoint& checkpoint) {
  return TorchModel(files, root, checkpoint).Run(name);
}

}  // namespace ucp::safetensors
