// The entries of the list, by where they come from. Additions need the form that the framework writes, from a file that
// it wrote; docs/security.md lists the names.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "compiler/formats/objects/known_objects.h"
#include "compiler/formats/objects/object_forms.h"

namespace ucp::objects {
namespace {

constexpr OpenParts kFixed = {};
constexpr OpenParts kOpenArguments = {.arguments = true};
constexpr OpenParts kOpenEntries = {.entries = true};
constexpr OpenParts kOpenState = {.state = true};

using pytorch::Call;
using Words = std::vector<std::string_view>;

void AddPython(std::vector<KnownObject>& all) {
  all.insert(all.end(), {{"argparse", "Namespace", &HasAttributes, {}, kOpenState},
                         {"builtins", "bytearray", &IsOfBytes, {}, kFixed},
                         {"builtins", "bytes", &IsOfBytes, {}, kFixed},
                         {"builtins", "complex", &IsOfNumbers, {}, kFixed},
                         {"builtins", "frozenset", &IsSet, {}, kOpenArguments},
                         {"builtins", "getattr", &IsEnumMember, {}, kFixed},
                         {"builtins", "range", &IsOfNumbers, {}, kFixed},
                         {"builtins", "set", &IsSet, {}, kOpenArguments},
                         {"builtins", "slice", &IsOfNumbers, {}, kFixed},
                         {"builtins", "xrange", &IsOfNumbers, {}, kFixed},
                         {"collections", "Counter", &IsCounter, {}, kOpenArguments},
                         {"collections", "OrderedDict", &IsMapping, {}, {.entries = true, .state = true}},
                         {"collections", "defaultdict", &IsDefaultDict, {}, kOpenEntries},
                         {"collections", "deque", &IsDeque, {}, {.arguments = true, .items = true}}});
}

// numpy before 2 says `numpy.core`.
void AddNumpyAndTorch(std::vector<KnownObject>& all) {
  all.insert(all.end(), {{"numpy", "dtype", &IsNumpyDType, {}, kFixed},
                         {"numpy._core.multiarray", "_reconstruct", &IsNumpyArray, {}, kFixed},
                         {"numpy._core.multiarray", "scalar", &IsNumpyScalar, {}, kFixed},
                         {"numpy._core.numeric", "_frombuffer", &IsNumpyBuffer, {}, kFixed},
                         {"torch", "Size", &IsSize, {}, kFixed},
                         {"torch", "device", &IsDevice, {}, kFixed},
                         {"torch.serialization", "_get_layout", &IsEnum, {}, kFixed}});
  // Dense tensors are not calls in a value. These are the others, which no conversion reads and a scan meets.
  for (std::string_view name :
       {"_rebuild_device_tensor_from_numpy", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor",
        "_rebuild_parameter", "_rebuild_qtensor", "_rebuild_sparse_csr_tensor", "_rebuild_sparse_tensor",
        "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"}) {
    all.push_back({"torch._utils", name, &IsTensorCall, {}, kOpenArguments});
  }
}

// `fragment_address` stood in bf16_optimizer before 0.7.3, and does so in BLOOM's checkpoints.
void AddDeepSpeed(std::vector<KnownObject>& all) {
  constexpr std::string_view kScalers = "deepspeed.runtime.fp16.loss_scaler";
  const Words address = {"numel", "start"};
  const Words dynamic = {"cur_scale",      "dynamic",       "cur_iter",
                         "scale_factor",   "scale_window",  "last_overflow_iter",
                         "min_scale",      "delayed_shift", "consecutive_hysteresis",
                         "cur_hysteresis", "dtype",         "raise_error_at_min_scale"};
  all.insert(all.end(), {{"deepspeed.checkpoint.universal_checkpoint",
                          "SubparamShape",
                          &HasAttributes,
                          {"patterns", "shape", "partition_dim"},
                          kOpenState},
                         {"deepspeed.runtime.bf16_optimizer", "fragment_address", &HasNumbers, address, kFixed},
                         {kScalers, "DynamicLossScaler", &HasNumbers, dynamic, kFixed},
                         {kScalers, "LossScaler", &HasNumbers, {"cur_scale", "dynamic"}, kFixed},
                         {"deepspeed.runtime.zero.config",
                          "ZeroStageEnum",
                          &IsEnum,
                          {"disabled", "optimizer_states", "gradients", "weights", "max_stage"},
                          kFixed},
                         {"deepspeed.utils.tensor_fragment", "fragment_address", &HasNumbers, address, kFixed}});
}

void AddEnums(std::vector<KnownObject>& all, std::string_view module, const Words& names) {
  for (std::string_view name : names) all.push_back({module, name, &IsEnum, {}, kFixed});
}

// Among the arguments that Megatron-LM and Megatron-DeepSpeed save.
void AddMegatron(std::vector<KnownObject>& all) {
  AddEnums(all, "megatron.core.enums", {"ModelType"});
  AddEnums(all, "megatron.core.transformer.enums",
           {"AttnBackend", "AttnMaskType", "AttnType", "CudaGraphScope", "LayerType", "ModelType"});
  AddEnums(all, "megatron.enums", {"AttnMaskType", "AttnType", "LayerType", "PositionEmbeddingType"});
  AddEnums(all, "megatron.model.enums", {"AttnMaskType", "AttnType", "LayerType"});
}

// The objects that transformers' Trainer keeps in training_args.bin.
void AddTrainer(std::vector<KnownObject>& all) {
  AddEnums(all, "accelerate.utils.dataclasses", {"DistributedType"});
  AddEnums(all, "transformers.debug_utils", {"DebugOption"});
  AddEnums(all, "transformers.trainer_utils",
           {"EvaluationStrategy", "FSDPOption", "HubStrategy", "IntervalStrategy", "SaveStrategy", "SchedulerType"});
  AddEnums(all, "transformers.training_args", {"OptimizerNames"});
  for (const auto& [module, name] : {std::pair<std::string_view, std::string_view>{"accelerate.state", "PartialState"},
                                     {"accelerate.utils.dataclasses", "DeepSpeedPlugin"},
                                     {"transformers.deepspeed", "HfDeepSpeedConfig"},
                                     {"transformers.deepspeed", "HfTrainerDeepSpeedConfig"},
                                     {"transformers.integrations.deepspeed", "HfDeepSpeedConfig"},
                                     {"transformers.integrations.deepspeed", "HfTrainerDeepSpeedConfig"},
                                     {"transformers.trainer_pt_utils", "AcceleratorConfig"},
                                     {"transformers.training_args", "TrainingArguments"},
                                     {"transformers.training_args_seq2seq", "Seq2SeqTrainingArguments"}}) {
    all.push_back({module, name, &HasAttributes, {}, kOpenState});
  }
}

// The file `.metadata` of torch.distributed.checkpoint, of 2.3 and later, of 2.0 to 2.2, and of 1.12 and 1.13.
void AddDistributedCheckpoint(std::vector<KnownObject>& all) {
  const auto add = [&all](std::string_view module, std::string_view name, bool (*fits)(const KnownObject&, const Call&),
                          Words words,
                          OpenParts open) { all.push_back({module, name, fits, std::move(words), open, true}); };
  const Words formats = {"TORCH_CONTIGUOUS_FORMAT", "TORCH_CHANNELS_LAST", "TORCH_PRESERVE_FORMAT"};
  for (const std::string_view module :
       {"torch.distributed.checkpoint.metadata", "torch.distributed._shard.checkpoint.metadata"}) {
    add(module, "Metadata", &HasAttributes,
        {"state_dict_metadata", "planner_data", "storage_data", "storage_meta", "version"}, kOpenState);
    add(module, "TensorStorageMetadata", &HasAttributes, {"properties", "size", "chunks"}, kOpenState);
    add(module, "BytesStorageMetadata", &HasAttributes, {"none"}, kOpenState);
    add(module, "ChunkStorageMetadata", &HasAttributes, {"offsets", "sizes"}, kOpenState);
    add(module, "MetadataIndex", &HasAttributes, {"fqn", "index", "offset"}, kOpenState);
    add(module, "StorageMeta", &HasAttributes, {"checkpoint_id", "save_id", "load_id", "modules"}, kOpenState);
    add(module, "TensorProperties", &HasParts, {}, kOpenState);
    add(module, "_MEM_FORMAT_ENCODING", &IsEnum, formats, kFixed);
  }
  for (const std::string_view module :
       {"torch.distributed.checkpoint.filesystem", "torch.distributed._shard.checkpoint.filesystem"}) {
    add(module, "_StorageInfo", &HasAttributes, {"relative_path", "offset", "length", "transform_descriptors"},
        kOpenState);
  }
  constexpr std::string_view kSharded = "torch.distributed._shard.sharded_tensor.metadata";
  add(kSharded, "TensorProperties", &HasParts, {}, kOpenState);
  add(kSharded, "MEM_FORMAT_ENCODING", &IsEnum, formats, kFixed);
  add("pathlib", "PosixPath", &IsPath, {}, kFixed);
  add("pathlib._local", "PosixPath", &IsPath, {}, kFixed);
}

// Tensors that ranks share, as torch_checkpointing saves them.
void AddDTensors(std::vector<KnownObject>& all) {
  const auto add = [&all](std::string_view module, std::string_view name, bool (*fits)(const KnownObject&, const Call&),
                          OpenParts open) { all.push_back({module, name, fits, {}, open, true}); };
  add("torch._tensor", "_rebuild_from_type_v2", &IsDTensorCall, kOpenArguments);
  for (const std::string_view name : {"_FlatLayout", "_MeshLayout"}) {
    add("torch.distributed._mesh_layout", name, &HasAttributes, kOpenState);
  }
  add("torch.distributed.device_mesh", "DeviceMesh", &HasAttributes, kOpenState);
  add("torch.distributed.tensor._dtensor_spec", "DTensorSpec", &HasAttributes, kOpenState);
  for (const std::string_view name : {"ShardOrderEntry", "TensorMeta"}) {
    add("torch.distributed.tensor._dtensor_spec", name, &IsNamedTuple, kOpenArguments);
  }
  for (const std::string_view name : {"Replicate", "Shard", "_StridedShard"}) {
    add("torch.distributed.tensor.placement_types", name, &HasAttributes, kOpenState);
  }
}

}  // namespace

std::span<const KnownObject> AllKnownObjects() {
  static const std::vector<KnownObject> sorted = [] {
    std::vector<KnownObject> all;
    AddPython(all);
    AddNumpyAndTorch(all);
    AddDeepSpeed(all);
    AddMegatron(all);
    AddTrainer(all);
    AddDistributedCheckpoint(all);
    AddDTensors(all);
    std::sort(all.begin(), all.end(), [](const KnownObject& a, const KnownObject& b) {
      return std::tie(a.module, a.name) < std::tie(b.module, b.name);
    });
    return all;
  }();
  return sorted;
}

}  // namespace ucp::objects
