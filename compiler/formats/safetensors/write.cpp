// Tensors are dealt to files in the order of their names, a new file where the next one does not fit; a tensor is never
// cut. Within a file they lie in the reference writer's order.
#include "compiler/formats/safetensors/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/format_state.h"
#include "compiler/formats/safetensors/dtype_codes.h"
#include "compiler/formats/safetensors/file_names.h"
#include "compiler/formats/safetensors/header.h"
#include "compiler/formats/safetensors/index.h"
#include "compiler/formats/safetensors/memory_names.h"
#include "compiler/formats/safetensors/training_file.h"
#include "compiler/formats/safetensors/write_options.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::safetensors {
namespace {

class Writer {
 public:
  Writer(const TargetRequest& request, WriteOptions options) : request_(request), options_(options) {}

  llvm::Expected<TargetFiles> Run() {
    UCP_RETURN_IF_ERROR(CheckNames());
    target_.format = "safetensors";
    target_.weights_only = !options_.all_states;
    UCP_RETURN_IF_ERROR(AddWeights());
    if (options_.all_states) UCP_RETURN_IF_ERROR(AddOptimizer());
    for (auto& [tensor, sets] : sets_) AddShards(*tensor, sets);
    for (const CompanionFile& file : request_.companions) AddFile(target_, file.name, file.content);
    return std::move(target_);
  }

 private:
  // One tensor of a file, and where its buffer goes.
  struct Entry {
    const LogicalTensor* tensor = nullptr;
    std::string state;
    HeaderEntry header;
    std::uint64_t bytes = 0;
  };

  llvm::Error CheckNames() const {
    for (const LogicalTensor& tensor : request_.tensors) {
      if (IsUtf8(tensor.name) && tensor.name != "__metadata__") continue;
      return Fail(ErrorCode::kUnsupported, "the name of tensor `{}` cannot stand in a safetensors file", tensor.name);
    }
    if (options_.names_in_memory) return llvm::Error::success();
    const FormatState* state = request_.training.format_state.get();
    if (const std::string why = state != nullptr ? state->WhyNotPublished() : ""; !why.empty()) {
      return Fail(ErrorCode::kUnsupported, "{}; `names=memory` writes the names as they are", why);
    }
    std::optional<MemoryName> name = FindMemoryName(request_.tensors);
    if (!name) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported,
                "tensor `{}` has the name that transformers gives it in memory, where a hub folder has {}; "
                "`names=memory` writes the names as they are",
                name->tensor, name->on_disk);
  }

  llvm::Error AddWeights() {
    std::vector<Entry> entries;
    bool nobody_says = false;
    for (const LogicalTensor& tensor : request_.tensors) {
      const LogicalTensor::State* master = FindState(tensor, kMasterState);
      const LogicalTensor::State* fed = master != nullptr ? master : FindState(tensor, kWeightState);
      if (fed == nullptr) {
        return Fail(ErrorCode::kUnsupported, "tensor `{}` has neither a weight nor a master", tensor.name);
      }
      DType dtype = tensor.weight.value_or(fed->dtype);
      nobody_says = nobody_says || (master != nullptr && !tensor.weight && !options_.dtype);
      const bool is_cast = options_.dtype && tensor.kind != TensorKind::kBuffer && IsFloatingPoint(fed->dtype);
      UCP_RETURN_IF_ERROR(AddEntry(tensor, kWeightState, tensor.name, is_cast ? *options_.dtype : dtype, entries));
    }
    if (nobody_says) {
      target_.remarks.push_back(
          "the source has no weights in another dtype than that in which they are trained, so they are written in "
          "that; "
          "`dtype=bf16` and `dtype=fp16` round them");
    }
    const std::string megatron_name = options_.all_states ? "" : FindMegatronName(request_.tensors);
    if (!megatron_name.empty()) {
      target_.remarks.push_back(fmt::format(
          "the names are those of Megatron's module or of a pipeline's layers (first `{}`), which `from_pretrained` of "
          "transformers does not know",
          megatron_name));
    }
    if (!options_.all_states) {
      target_.remarks.push_back("masters and optimizer states are left out; `states=all` writes them too");
    }
    return AddFiles(kModelStem, std::move(entries));
  }

  llvm::Error AddOptimizer() {
    std::vector<Entry> entries;
    for (const LogicalTensor& tensor : request_.tensors) {
      for (const LogicalTensor::State& state : tensor.states) {
        if (state.name == kWeightState) continue;
        if (state.name.find('.') != std::string::npos || !IsUtf8(state.name)) {
          return Fail(ErrorCode::kUnsupported, "the optimizer's state `{}` cannot stand in a safetensors file",
                      state.name);
        }
        UCP_RETURN_IF_ERROR(
            AddEntry(tensor, state.name, fmt::format("{}.{}", tensor.name, state.name), state.dtype, entries));
      }
    }
    UCP_RETURN_IF_ERROR(AddFiles(kOptimizerStem, std::move(entries)));
    AddFile(target_, std::string(kTrainingStateFile), ComposeTrainingFile(request_.tensors, request_.training));
    return llvm::Error::success();
  }

  static llvm::Error AddEntry(const LogicalTensor& tensor, const std::string& state, std::string name, DType dtype,
                              std::vector<Entry>& entries) {
    if (!CodeOf(dtype)) {
      return Fail(ErrorCode::kUnsupported, "`{}` is {}, which safetensors files do not hold", name, Name(dtype));
    }
    std::optional<std::int64_t> bytes = ItemBytes(dtype);
    for (std::int64_t length : tensor.shape) bytes = bytes ? CheckedMultiply(*bytes, length) : bytes;
    if (!bytes) return Fail(ErrorCode::kUsage, "`{}` has more than 2^63 bytes", name);
    entries.push_back(
        {&tensor, state, {std::move(name), dtype, tensor.shape, 0, 0}, static_cast<std::uint64_t>(*bytes)});
    return llvm::Error::success();
  }

  // One file, or several and their index.
  llvm::Error AddFiles(std::string_view stem, std::vector<Entry> entries) {
    std::vector<std::vector<Entry>> files(1);
    Index index;
    std::uint64_t filled = 0;
    for (Entry& entry : entries) {
      if (!files.back().empty() && filled + entry.bytes > options_.max_shard_bytes) {
        files.emplace_back();
        filled = 0;
      }
      filled += entry.bytes;
      index.total_bytes += entry.bytes;
      files.back().push_back(std::move(entry));
    }
    for (std::size_t f = 0; f < files.size(); ++f) {
      const std::string path = ShardFile(stem, f + 1, files.size());
      if (files.size() > 1) {
        for (const Entry& entry : files[f]) index.file_of_tensor.emplace(entry.header.name, path);
      }
      UCP_RETURN_IF_ERROR(AddTensorFile(path, files[f]));
    }
    if (files.size() > 1) AddFile(target_, IndexFile(stem), ComposeIndex(index));
    return llvm::Error::success();
  }

  llvm::Error AddTensorFile(const std::string& path, const std::vector<Entry>& entries) {
    Header header;
    header.metadata = {{"format", "pt"}};
    std::unordered_map<std::string_view, const Entry*> by_name;
    header.entries.reserve(entries.size());
    for (const Entry& entry : entries) {
      header.entries.push_back(entry.header);
      by_name.emplace(entry.header.name, &entry);
    }
    Arrange(header);
    std::string bytes = ComposeHeader(header);
    if (bytes.size() - kLengthBytes > kMostHeaderBytes) {
      return Fail(ErrorCode::kUnsupported,
                  "the header of `{}` would have {} bytes, and readers take {}; lower max_shard", path, bytes.size(),
                  kMostHeaderBytes);
    }
    const std::uint64_t data = bytes.size();
    const std::uint64_t end = header.entries.empty() ? 0 : header.entries.back().end;
    const FileId file = target_.storage.Add(StoredFile{path, data + end, ""});
    target_.placements.push_back({file, 0, target_.AddBlob(std::move(bytes))});
    for (const HeaderEntry& placed : header.entries) {
      const Entry& entry = *by_name.at(placed.name);
      const std::int64_t elements = static_cast<std::int64_t>(entry.bytes) / ItemBytes(placed.dtype);
      const RecordId record =
          target_.storage.Add(Record{file, data + placed.begin, placed.end - placed.begin, std::nullopt});
      const BufferId buffer = target_.storage.Add(Buffer{placed.dtype, elements, {{record, 0, elements}}});
      auto& [weight, states] = sets_[entry.tensor];
      (entry.state == kWeightState ? weight : states).push_back({entry.state, buffer});
    }
    return llvm::Error::success();
  }

  void AddShards(const LogicalTensor& tensor, std::pair<BufferSet, BufferSet>& sets) {
    for (BufferSet* set : {&sets.first, &sets.second}) {
      if (set->empty()) continue;
      std::sort(set->begin(), set->end(), [](const auto& a, const auto& b) { return a.state < b.state; });
      Shard shard;
      shard.tensor = tensor.name;
      shard.kind = tensor.kind;
      shard.shape = tensor.shape;
      shard.states = target_.storage.Add(std::move(*set));
      target_.storage.shards.push_back(std::move(shard));
    }
  }

  const TargetRequest& request_;
  const WriteOptions options_;
  TargetFiles target_;
  std::map<const LogicalTensor*, std::pair<BufferSet, BufferSet>> sets_;  // The weight, and all other states.
};

}  // namespace

llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request) {
  return Writer(request, ReadWriteOptions(request.strategy)).Run();
}

}  // namespace ucp::safetensors
