// The folder, in the order in which it is laid out:
//
//   latest_checkpointed_iteration.txt     1000
//   iter_0001000/metadata.json            the kind of container
//   iter_0001000/common.pt                the part that is for all ranks
//   iter_0001000/__<file>_0.distcp        in the first file objects first; then weights; then masters and states
//   iter_0001000/.metadata                where they are
#include "compiler/formats/megatron/write/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/counted_entries.h"
#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/write/element_items.h"
#include "compiler/formats/dcp/write/folder.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/formats/megatron/rules/rank_buffers.h"
#include "compiler/formats/megatron/write/bucket_items.h"
#include "compiler/formats/megatron/write/common_file.h"
#include "compiler/formats/megatron/write/equal_parts.h"
#include "compiler/formats/megatron/write/fsdp_folder.h"
#include "compiler/formats/megatron/write/optimizers.h"
#include "compiler/formats/megatron/write/stacks.h"
#include "compiler/formats/megatron/write/target_args.h"
#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/user_option.h"

namespace ucp::megatron {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

constexpr const char* kDescription =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", )"
    R"("common_backend_version": 1})";

class Writer {
 public:
  Writer(const TargetRequest& request, const TargetOptions& options, std::vector<Stack> stacks)
      : request_(request),
        options_(options),
        stacks_(std::move(stacks)),
        args_(ArgsOf(options, request.training)),
        arguments_(args_.facts),
        has_optimizer_(!options.weights_alone && !request.training.groups.empty()),
        folder_(FolderOf(IterationOf(request.training)) + "/"),
        items_(request, nullptr, target_) {}

  llvm::Expected<TargetFiles> Run() {
    target_.format = "megatron";
    target_.mesh = request_.layout.mesh;
    target_.weights_only = options_.weights_alone;
    if (options_.expert_parallel) {
      UCP_RETURN_IF_ERROR(CheckExpertsShareOut(request_.tensors, *options_.expert_parallel));
    }
    Optimizers optimizers;
    if (has_optimizer_) {
      UCP_RETURN_IF_ERROR(CheckOptimizerIsWhole(training()));
      UCP_RETURN_IF_ERROR(CheckMastersAreKnown());
      const auto own = arguments_.Number("expert_model_parallel_size").value_or(1);
      UCP_ASSIGN_OR_RETURN(
          optimizers,
          OptimizersOf(training().groups, options_.has_own_buffers() ? std::optional(own) : options_.expert_parallel));
    }
    AddFile(target_, kTracker, TrackerText(training()));
    AddFile(target_, PathOf(dcp::kMegatronDescription), std::string(kDescription));
    ArchiveComposer composer(training());
    const ValuePtr common = ComposeCommon(training(), args_.client, options_, optimizers, composer);
    AddFile(target_, PathOf(dcp::kMegatronCommonFile), composer.Compose(common));
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) items_.AddHolder(t);
    UCP_RETURN_IF_ERROR(AddObjects());
    for (const Stack& stack : stacks_) UCP_RETURN_IF_ERROR(AddModel(stack));
    if (has_optimizer_ && options_.has_own_buffers()) {
      UCP_RETURN_IF_ERROR(AddOwnBuffers(optimizers));
    } else if (has_optimizer_) {
      for (const Stack& stack : stacks_) UCP_RETURN_IF_ERROR(AddStates(stack));
    }
    items_.Write(folder_of_items_, dcp::TorchRelease::kSince24);
    items_.AddShards();
    RemarkOnEngine();
    if (has_optimizer_ && !args_.has_seeds) {
      target_.remarks.emplace_back(
          "the states of random generators are those of other ranks and are left out; load with --no-load-rng");
    }
    return std::move(target_);
  }

 private:
  const TrainingState& training() const { return request_.training; }
  std::string PathOf(const char* file) const { return folder_ + file; }
  const LogicalTensor& First(const Stack& stack) const { return request_.tensors[stack.tensors.front()]; }

  DType WeightOf(const LogicalTensor& tensor, DType stored) const {
    const bool is_cast = options_.dtype && tensor.kind != TensorKind::kBuffer && IsFloatingPoint(stored);
    return is_cast ? *options_.dtype : tensor.weight.value_or(stored);
  }

  // Each element of the model beside its master, if it has one.
  llvm::Error AddModel(const Stack& stack) {
    const LogicalTensor& tensor = First(stack);
    const LogicalTensor::State* master = FindState(tensor, kMasterState);
    const LogicalTensor::State* stored = master != nullptr ? master : FindState(tensor, kWeightState);
    if (stored == nullptr) {
      return Fail(ErrorCode::kUnsupported, "tensor `{}` has neither a weight nor a master", tensor.name);
    }
    const DType dtype = WeightOf(tensor, stored->dtype);
    const bool is_beside_master = has_optimizer_ && master != nullptr && !IsItsOwnMaster(tensor);
    const bool is_weight = options_.weights_alone || is_beside_master;
    return AddTensor(stack.key, stack, is_weight ? kWeightState : stored->name, dtype);
  }

  // An optimizer that is not distributed steps weights of float32 themselves.
  bool IsItsOwnMaster(const LogicalTensor& tensor) const {
    const LogicalTensor::State* master = FindState(tensor, kMasterState);
    return !options_.is_distributed() && master != nullptr && WeightOf(tensor, master->dtype) == master->dtype;
  }

  // Without a dtype, weights are written as their masters, and so as those of a training in float32.
  llvm::Error CheckMastersAreKnown() const {
    if (options_.sharding == kFullyReshardable || options_.dtype) return llvm::Error::success();
    const auto unsaid = std::ranges::find_if(request_.tensors, [](const LogicalTensor& tensor) {
      return !tensor.weight && FindState(tensor, kMasterState) != nullptr;
    });
    const ValuePtr args = ArgsIn(training());
    if (unsaid == request_.tensors.end() || !args) return llvm::Error::success();
    for (const char* dtype : {"bf16", "fp16"}) {
      const ValuePtr is_set = pytorch::Find(*args, dtype);
      if (!is_set || !pytorch::AsBool(*is_set).value_or(false)) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`args.{}` is true, and the source does not say the dtype of `{}`, by which this kind of optimizer "
                  "keeps its masters; `dtype={}` says it",
                  dtype, unsaid->name, dtype);
    }
    return llvm::Error::success();
  }

  llvm::Error AddStates(const Stack& stack) {
    const LogicalTensor& tensor = First(stack);
    for (const LogicalTensor::State& state : tensor.states) {
      const bool is_master = state.name == kMasterState;
      if (state.name == kWeightState || (is_master && IsItsOwnMaster(tensor))) continue;
      const std::string_view masters = options_.is_distributed() ? "param" : "fp32_param";
      const std::string key =
          fmt::format("optimizer.state.{}.{}", is_master ? masters : std::string_view(state.name), stack.key);
      UCP_RETURN_IF_ERROR(AddTensor(key, stack, state.name, state.dtype));
    }
    return llvm::Error::success();
  }

  // Megatron Core's default: with bfloat16 it adds up gradients in float32.
  DType GradientOf(DType weight) const {
    const bool is_said = args_.facts.contains("args.accumulate_allreduce_grads_in_fp32");
    const bool is_wide = is_said ? arguments_.IsSet("accumulate_allreduce_grads_in_fp32") : weight == DType::kBFloat16;
    return is_wide ? DType::kFloat32 : weight;
  }

  llvm::Expected<DType> WeightOfTrained() const {
    const LogicalTensor* first = nullptr;
    for (const LogicalTensor& tensor : request_.tensors) {
      if (FindState(tensor, kMasterState) == nullptr) continue;
      if (first == nullptr) first = &tensor;
      const DType own = WeightOf(tensor, DType::kFloat32);
      const DType other = WeightOf(*first, DType::kFloat32);
      if (own == other) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is {} and `{}` {}: of parameters of several dtypes it is not known where they stand in the "
                  "optimizer's own buffers; `optimizer=fully_reshardable` needs none of this",
                  first->name, Name(other), tensor.name, Name(own));
    }
    return first == nullptr ? DType::kFloat32 : WeightOf(*first, DType::kFloat32);
  }

  // Reading has the stored sizes to compare with, and writing has not.
  llvm::Error CheckOwnBuffersAreKnown() {
    const bool counts_buckets = arguments_.IsSet("ddp_num_buckets") && arguments_.IsSet("overlap_grad_reduce");
    if (counts_buckets || arguments_.IsSet("fp8_param_gather")) {
      return Fail(ErrorCode::kUnsupported,
                  "the optimizer's own buffers (`dp_reshardable`) are not known with `args.{}`; "
                  "`optimizer=fully_reshardable` needs none of this",
                  counts_buckets ? "ddp_num_buckets" : "fp8_param_gather");
    }
    const auto head = std::ranges::find(request_.tensors, kHead, &LogicalTensor::name);
    const bool is_frozen = head != request_.tensors.end() && FindState(*head, kMasterState) == nullptr;
    if (is_frozen && arguments_.Number("pipeline_model_parallel_size").value_or(1) > 1) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` has no master, and of a pipeline whose head is not trained the optimizer's own buffers "
                  "(`dp_reshardable`) are not known; `optimizer=fully_reshardable` needs none of this",
                  kHead);
    }
    return CheckVocabulary();
  }

  // Megatron Core pads the vocabulary to a multiple of the number of ranks, and does not pad own buffers again.
  llvm::Error CheckVocabulary() {
    const auto rows = arguments_.Number("padded_vocab_size");
    const auto grain = arguments_.Number("make_vocab_size_divisible_by");
    const auto ranks = arguments_.Number("tensor_model_parallel_size");
    if (!args_.has_other_tensor_parallel || !rows || !grain || !ranks) return llvm::Error::success();
    const auto multiple = CheckedMultiply(*grain, *ranks);
    if (!multiple || *multiple < 1 || *rows % *multiple != 0) {
      return Fail(
          ErrorCode::kUnsupported,
          "`args.padded_vocab_size` is {}, and a job of {} tensor-parallel ranks pads the vocabulary to a "
          "multiple of {} for each (`args.make_vocab_size_divisible_by`), so it cannot load the optimizer's own "
          "buffers (`dp_reshardable`); `optimizer=fully_reshardable` needs none of this",
          *rows, *ranks, *grain);
    }
    target_.remarks.push_back(
        fmt::format("the vocabulary has {} rows with its padding; a job that pads it to another number at {} "
                    "tensor-parallel ranks does not load the folder",
                    *rows, *ranks));
    return llvm::Error::success();
  }

  llvm::Error AddOwnBuffers(const Optimizers& optimizers) {
    UCP_RETURN_IF_ERROR(CheckOwnBuffersAreKnown());
    UCP_ASSIGN_OR_RETURN(const auto equal_parts, EqualPartsOf(options_, training(), request_.tensors));
    UCP_ASSIGN_OR_RETURN(const DType weight, WeightOfTrained());
    const BucketTarget target{request_, arguments_,       weight,  GradientOf(weight), equal_parts,
                              items_,   folder_of_items_, target_, archives_};
    return AddBuckets(target, [&](const RanksBuffer& buffer, const std::vector<BufferObject>& sizes) -> llvm::Error {
      for (const BufferObject& object : sizes) {
        UCP_RETURN_IF_ERROR(AddObject(fmt::format("{}/shard_0_1", object.key), object.value));
      }
      const std::size_t number = buffer.optimizer == kOptimizers.back() ? 1 : 0;
      return AddGroups(buffer, optimizers[std::min(number, optimizers.size() - 1)]);
    });
  }

  llvm::Error AddGroups(const RanksBuffer& buffer, std::span<const OptimizerGroup> groups) {
    ArchiveComposer composer(training());
    const ValuePtr own = ComposeOwnGroups(training(), groups, composer);
    UCP_RETURN_IF_ERROR(AddItem(fmt::format("{}/shard_0_1", buffer.Object("optimizer")), composer, own));
    const ValuePtr scaler = FindEntry(training().optimizer, "grad_scaler");
    if (!scaler || scaler->is_none()) return llvm::Error::success();
    return AddObject(fmt::format("{}/shard_0_1", buffer.Object("grad_scaler")), scaler);
  }

  llvm::Error AddTensor(const std::string& key, const Stack& stack, const std::string& state, DType dtype) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_ASSIGN_OR_RETURN(dcp::WrittenEntry * entry, folder_of_items_.NewEntry({key}));
    const std::vector<std::vector<std::int64_t>> places = PlacesIn(stack.shape);
    for (std::size_t i = 0; i < stack.tensors.size(); ++i) {
      items_.Add(folder_of_items_, *entry, {stack.tensors[i], state, dtype}, places[i]);
    }
    entry->shape = stack.shape;
    entry->shape.insert(entry->shape.end(), First(stack).shape.begin(), First(stack).shape.end());
    return llvm::Error::success();
  }

  // Those of the ranks and of the modules.
  llvm::Error AddObjects() {
    const RankState& rank = training().ranks[training().counting_rank];
    if (!options_.weights_alone) {
      for (const Entry& entry : rank.client) {
        const auto key = pytorch::AsText(*entry.key);
        if (key && IsObjectKey(*key) && IsOfJob(*key)) UCP_RETURN_IF_ERROR(AddObject(std::string(*key), entry.value));
      }
    }
    bool has_extras = false;
    for (const Entry& entry : rank.module_extras) {
      const auto key = pytorch::AsText(*entry.key);
      if (!key || !IsObjectKey(*key)) continue;
      has_extras = true;
      UCP_RETURN_IF_ERROR(AddObject(std::string(*key), entry.value));
    }
    if (has_extras) return llvm::Error::success();
    for (const std::string& key : EmptyExtras()) UCP_RETURN_IF_ERROR(AddObject(key, pytorch::MakeNone()));
    return llvm::Error::success();
  }

  // The states of random generators are of the ranks that `args` has.
  bool IsOfJob(std::string_view key) const { return args_.has_seeds || !key.starts_with("rng_state/"); }

  // Megatron Core's linear layers have an extra state, which is None, and its loader asks for that of each layer.
  std::vector<std::string> EmptyExtras() const {
    std::vector<std::string> keys;
    for (const Stack& stack : stacks_) {
      const std::size_t dot = stack.key.rfind('.');
      const std::size_t module = dot == std::string::npos ? dot : stack.key.rfind(".linear_", dot);
      if (module == std::string::npos || stack.key.substr(dot) != ".weight") continue;
      std::vector<std::int64_t> shape = stack.shape;
      shape.insert(shape.end(), First(stack).shape.begin(), First(stack).shape.end());
      shape.resize(std::min(shape.size(), StackedDimensions(stack.key)));
      for (const std::string& place : PlacesOf(shape)) {
        keys.push_back(fmt::format("{}._extra_state/shard_{}", stack.key.substr(0, dot), place));
      }
    }
    return keys;
  }

  // "2.0_4.8" for each place of a stack of 4 layers and 8 experts; "0_1" without a stack.
  static std::vector<std::string> PlacesOf(const std::vector<std::int64_t>& shape) {
    if (shape.empty()) return {"0_1"};
    std::vector<std::string> places;
    for (const std::vector<std::int64_t>& place : PlacesIn(shape)) {
      places.push_back(fmt::format("{}_{}", fmt::join(place, "."), fmt::join(shape, ".")));
    }
    return places;
  }

  llvm::Error AddObject(const std::string& key, const ValuePtr& value) {
    ArchiveComposer composer(training());
    return AddItem(key, composer, composer.AddValue(value));
  }

  // `value`: of the composer's.
  llvm::Error AddItem(const std::string& key, const ArchiveComposer& composer, const ValuePtr& value) {
    UCP_RETURN_IF_ERROR(folder_of_items_.NewEntry({key}).takeError());
    folder_of_items_.AddKnown(&archives_.emplace_back(Share(target_, composer.Compose(pytorch::MakeList({value})))));
    return llvm::Error::success();
  }

  // Megatron Core's own source has none, but for those that other targets ask for.
  void RemarkOnEngine() {
    if (options_.weights_alone || ContentOf(training()) != nullptr) return;
    std::set<std::string> left;
    for (const Entry& entry : training().engine) {
      if (!IsCountedEntry(training(), entry)) left.emplace(pytorch::AsText(*entry.key).value_or(""));
    }
    if (left.empty()) return;
    target_.remarks.push_back(fmt::format(
        "entries of the source's engine that Megatron Core does not have are left out: {}", fmt::join(left, ", ")));
  }

  const TargetRequest& request_;
  const TargetOptions options_;
  const std::vector<Stack> stacks_;
  const TargetArgs args_;
  const Arguments arguments_;
  const bool has_optimizer_;
  const std::string folder_;
  TargetFiles target_;
  dcp::ElementItems items_;
  dcp::Folder folder_of_items_{folder_};
  std::deque<SharedArchive> archives_;  // Of the objects, until their folder is written.
};

}  // namespace

llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request) {
  const std::string& tag = request.training.tag;
  if (tag.starts_with("iter_") && FolderOf(IterationOf(request.training)) != tag) {
    return Fail(ErrorCode::kUsage, "Megatron Core calls no iteration `{}`; it has names such as {}", tag,
                OptionName(UserOption::kTag, "iter_0001000"));
  }
  const TargetOptions options = ReadTargetOptions(request.strategy, request.training);
  UCP_RETURN_IF_ERROR(CheckTargetOptions(request.strategy, options));
  if (options.is_fsdp) return LayOutFsdpFolder(request, options);
  UCP_ASSIGN_OR_RETURN(std::vector<Stack> stacks, StacksOf(request.tensors, ContentOf(request.training) != nullptr,
                                                           FormOf(ArgsIn(request.training))));
  return Writer(request, options, std::move(stacks)).Run();
}

}  // namespace ucp::megatron
