#include "compiler/formats/deepspeed/native/write/model.h"

#include <algorithm>
#include <map>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/write/folded_files.h"
#include "compiler/formats/deepspeed/native/write/frozen_parts.h"
#include "compiler/formats/deepspeed/native/write/fused_experts.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/deepspeed/native/write/job/cut_metadata.h"
#include "compiler/formats/deepspeed/native/write/module.h"
#include "compiler/formats/deepspeed/native/write/nested_module.h"
#include "compiler/formats/deepspeed/native/write/zero0_optimizer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/wrapper_names.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeNone;
using pytorch::MakeOrderedDict;
using pytorch::MakeText;
using pytorch::ValuePtr;

class StatesComposer {
 public:
  StatesComposer(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                 const ExpertsToWrite& experts, const Coordinate& coordinate,
                 const std::vector<FlatGroupToWrite>& groups, FrozenPartsToWrite& parts)
      : request_(request),
        options_(options),
        carried_(carried),
        experts_(experts),
        coordinate_(coordinate),
        groups_(groups),
        frozen_parts_(parts),
        composer_(request.training),
        module_(request, options, composer_),
        optimizer_(request.training, options, carried, groups, composer_) {}

  // The files of partitions [first, end), which are all the same. Below stage 3 there is one file for all partitions.
  llvm::Error AddTo(const std::string& folder, std::int64_t first, std::int64_t end, TargetFiles& target) {
    FindHeld();
    UCP_ASSIGN_OR_RETURN(ValuePtr root, Root(first));
    ComposedArchive archive = composer_.Compose(root);
    root.reset();
    std::vector<std::string> paths;
    for (std::int64_t partition = first; partition < end; ++partition) {
      const std::string name =
          IsCut() ? PartitionedModelStatesName({mp(), partition}) : ModelStatesName(mp(), CheckpointFiles{});
      paths.push_back(folder + "/" + name);
    }
    for (const std::vector<RecordId>& records : AddFiles(target, paths, std::move(archive))) {
      module_.AddShards(records, target);
      optimizer_.AddShards(records, coordinate_, expert_rank(), target);
      frozen_parts_.AddRecords(records);
    }
    return llvm::Error::success();
  }

 private:
  std::int64_t mp() const { return coordinate_.At("pp") * options_.tp + coordinate_.At("tp"); }
  // Of the first rank, which saves the file.
  std::int64_t expert_rank() const { return experts_.FirstExpertRank(coordinate_.At("tp")); }
  bool IsCut() const { return options_.stage == 3; }  // Over the partitions.

  // Without ZeRO, the order of a module says which parameter of a group is which (zero0_names.h).
  void FindHeld() {
    if (options_.stage == 0) {
      for (const FlatGroupToWrite& group : groups_) {
        for (const PlacedParameter& parameter : group.parameters) held_.push_back(parameter.tensor);
      }
    }
    for (const LogicalTensor& tensor : request_.tensors) {
      const bool is_listed = options_.stage == 0 && tensor.kind == TensorKind::kParameter;
      const bool is_held =
          IsHeldAt(*request_.layout.Find(tensor.name), coordinate_) && experts_.IsHeldAt(tensor.name, expert_rank());
      if (is_listed || !is_held) continue;
      held_.push_back(&tensor);
      if (IsFrozenExpert(tensor) && experts_.ep() > 1) has_fragments_ = false;
    }
  }

  // The module, and beside it its frozen parameters and their shapes.
  struct ComposedModule {
    ValuePtr module = MakeNone();
    std::vector<Entry> frozen;
    std::vector<Entry> frozen_shapes;
  };

  llvm::Expected<ComposedModule> ComposeModule() {
    ComposedModule composed;
    auto& [module, frozen, frozen_shapes] = composed;
    if (options_.wrapper == WholeWrapper::kFused && !StateOf(request_.training).pipeline && !experts_.any()) {
      for (const FlatGroupToWrite& group : groups_) module_.AddVector(group);
    }
    if (IsCut()) {
      UCP_ASSIGN_OR_RETURN(module, CutModule());
      UCP_ASSIGN_OR_RETURN(frozen, frozen_parts_.Add(held_, frozen_shapes, composer_));
    } else if (!HasLayerFiles(request_, experts_)) {
      UCP_ASSIGN_OR_RETURN(module, Module(frozen));
    }
    for (const Entry& entry : IsCut() ? std::vector<Entry>() : frozen) {
      frozen_shapes.push_back({entry.key, Shape(entry.value->As<pytorch::Tensor>()->sizes)});
    }
    for (const LogicalTensor* tensor : held_) {
      if (IsFrozenExpert(*tensor) && !has_fragments_)
        frozen_shapes.push_back({MakeText(experts_.LocalName(tensor->name)), Shape(tensor->shape)});
    }
    return composed;
  }

  std::vector<Entry> Degrees() const {
    // DeepSpeed asks whoever tells it of parallelism, and with sequence parallelism alone gets that degree.
    const std::int64_t tp_degree = options_.tp > 1 ? options_.tp : options_.sp;
    return {{MakeText("dp_world_size"), MakeInteger(options_.dp)},
            {MakeText("mp_world_size"), MakeInteger(options_.mp())},
            {MakeText("checkpoint_parallel_dimensions"), MakeDict({{MakeText("pp_degree"), MakeInteger(options_.pp)},
                                                                   {MakeText("tp_degree"), MakeInteger(tp_degree)}})}};
  }

  llvm::Expected<ValuePtr> Root(std::int64_t partition) {
    std::vector<Entry> root;
    auto add = [&](const char* key, ValuePtr value) { root.push_back({MakeText(key), std::move(value)}); };
    auto add_all = [&](std::vector<Entry> entries) {
      for (Entry& entry : entries) root.push_back(std::move(entry));
    };
    UCP_ASSIGN_OR_RETURN(ComposedModule composed, ComposeModule());
    add("module", std::move(composed.module));
    add("buffer_names", BufferNames());
    const bool is_whole = options_.stage == 0;
    add("optimizer", is_whole ? optimizer_.Add() : MakeNone());
    add("param_shapes", is_whole ? MakeNone() : ParamShapes());
    const bool lists_frozen = options_.stage >= 2 && !options_.exclude_frozen;
    add("frozen_param_shapes", lists_frozen ? MakeOrderedDict(std::move(composed.frozen_shapes)) : MakeNone());
    add("shared_params", is_whole ? MakeNone() : SharedParams(mp() == 0 && partition == 0));
    add("frozen_param_fragments",
        lists_frozen && has_fragments_ ? MakeOrderedDict(std::move(composed.frozen)) : MakeNone());
    add_all(composer_.AddEntries(carried_.engine));
    add_all(Degrees());
    std::vector<Entry> client = carried_.client[static_cast<std::size_t>(mp())];
    if (experts_.any()) {
      UCP_ASSIGN_OR_RETURN(std::vector<Entry> of_experts, OfExperts(partition, client));
      add_all(std::move(of_experts));
    }
    add_all(composer_.AddEntries(client));
    return MakeDict(std::move(root));
  }

  // AutoEP's layers also stand among the entries on cuts; the other entries there stay as `client` has them.
  llvm::Expected<std::vector<Entry>> OfExperts(std::int64_t partition, std::vector<Entry>& client) const {
    std::vector<ValuePtr> counts;
    for (std::int64_t count : experts_.CountsOf(coordinate_.At("pp"))) counts.push_back(MakeInteger(count));
    ValuePtr layers = MakeNone();
    const RankInFiles place{coordinate_.At("tp"), partition};
    if (experts_.are_fused()) {
      const std::int64_t number = experts_.NumberOf(place.tensor_rank, place.partition);
      UCP_ASSIGN_OR_RETURN(layers, AutoEpLayers(request_, options_, experts_, coordinate_.At("pp"), number));
      SetEntry(client, kCutMetadata, WithAutoEpLayers(FindEntry(client, kCutMetadata), layers));
    }
    std::vector<Entry> entries{{MakeText("num_experts"), MakeList(std::move(counts))},
                               {MakeText("ds_autoep_layers"), std::move(layers)}};
    AddFoldingOfModel(options_, experts_, place, module_names_, entries);
    return entries;
  }

  // Second names share the tensor, as they do in a module. `frozen` receives the frozen parameters among them.
  llvm::Expected<ValuePtr> Module(std::vector<Entry>& frozen) {
    std::vector<Entry> module;
    for (const LogicalTensor* tensor : held_) {
      const bool is_in_module = !experts_.IsExpert(tensor->name);
      const bool is_listed = options_.stage == 2 && IsFrozenExpert(*tensor) && has_fragments_;
      if (!is_in_module && !is_listed) continue;
      UCP_ASSIGN_OR_RETURN(ValuePtr value, module_.Add(*tensor, coordinate_));
      if (tensor->kind == TensorKind::kFrozen) frozen.push_back({MakeText(experts_.LocalName(tensor->name)), value});
      if (is_in_module) AddNames(*tensor, value, module);
    }
    return WithExtras(std::move(module));
  }

  // Buffers, and empty placeholders for what the partitions share out.
  llvm::Expected<ValuePtr> CutModule() {
    std::vector<Entry> module;
    for (const LogicalTensor* tensor : held_) {
      if (experts_.IsExpert(tensor->name)) continue;  // In the optimizer alone.
      ValuePtr value;
      if (tensor->kind == TensorKind::kBuffer) {
        UCP_ASSIGN_OR_RETURN(value, module_.Add(*tensor, coordinate_));
      } else {
        value = module_.AddPlaceholder(*tensor);
      }
      AddNames(*tensor, value, module);
    }
    return WithExtras(std::move(module));
  }

  // The first name first, since without ZeRO nothing else tells it from the others.
  void AddNames(const LogicalTensor& tensor, const ValuePtr& value, std::vector<Entry>& module) const {
    module.push_back({MakeText(NameInStateDict(tensor.name)), value});
    for (const std::string& alias : request_.layout.Find(tensor.name)->aliases) {
      module.push_back({MakeText(NameInStateDict(alias)), value});
    }
  }

  ValuePtr WithExtras(std::vector<Entry> module) {
    for (Entry& entry : composer_.AddEntries(ModuleExtras(request_.training, options_, mp()))) {
      module.push_back(std::move(entry));
    }
    for (const Entry& entry : module) module_names_.emplace_back(pytorch::AsText(*entry.key).value_or(""));
    if (HasNestedModule(request_.training, request_.tensors)) return NestModule(module);
    return MakeOrderedDict(std::move(module));
  }

  ValuePtr BufferNames() const {
    std::vector<ValuePtr> names;
    for (const LogicalTensor* tensor : held_) {
      if (tensor->kind == TensorKind::kBuffer) names.push_back(MakeText(experts_.LocalName(tensor->name)));
    }
    return MakeList(std::move(names));
  }

  bool IsFrozenExpert(const LogicalTensor& tensor) const {
    return tensor.kind == TensorKind::kFrozen && experts_.IsExpert(tensor.name);
  }

  // The engine copies what it saves beside experts, and so torch.Size becomes a tuple.
  ValuePtr Shape(const std::vector<std::int64_t>& sizes) const {
    if (!experts_.any()) return pytorch::MakeTorchSize(sizes);
    std::vector<ValuePtr> items;
    for (std::int64_t size : sizes) items.push_back(MakeInteger(size));
    return pytorch::MakeTuple(std::move(items));
  }

  ValuePtr ParamShapes() const {
    std::vector<ValuePtr> groups;
    for (const FlatGroupToWrite& group : groups_) {
      std::vector<Entry> shapes;
      for (const PlacedParameter& parameter : group.parameters) {
        shapes.push_back({MakeText(parameter.name), Shape(parameter.shape)});
      }
      groups.push_back(MakeOrderedDict(std::move(shapes)));
    }
    return MakeList(std::move(groups));
  }

  // The first rank's file says it for all.
  ValuePtr SharedParams(bool is_first) const {
    if (!is_first) return MakeDict({});
    std::map<std::string, std::string> names = request_.training.aliases;
    for (const LogicalTensor* tensor : held_) {
      for (const std::string& alias : request_.layout.Find(tensor->name)->aliases) names.emplace(alias, tensor->name);
    }
    std::vector<Entry> shared;
    for (const auto& [alias, name] : names) shared.push_back({MakeText(alias), MakeText(name)});
    return MakeDict(std::move(shared));
  }

  const TargetRequest& request_;
  const WriteOptions& options_;
  const Carried& carried_;
  const ExpertsToWrite& experts_;
  const Coordinate& coordinate_;
  const std::vector<FlatGroupToWrite>& groups_;
  FrozenPartsToWrite& frozen_parts_;
  ArchiveComposer composer_;
  ModuleToWrite module_;
  WholeOptimizerToWrite optimizer_;
  std::vector<const LogicalTensor*> held_;
  std::vector<std::string> module_names_;  // Of all that is in the module.
  // Every rank loads the frozen parameters of the list, by its own names: those of experts would be the first rank's on
  // all. Without the list they come from the module and the experts' files.
  bool has_fragments_ = true;
};

}  // namespace

bool HasLayerFiles(const TargetRequest& request, const ExpertsToWrite& experts) {
  return StateOf(request.training).pipeline.has_value() && !experts.any();
}

llvm::Error AddModelStates(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                           const ExpertsToWrite& experts, const std::string& folder, const Coordinate& coordinate,
                           const std::vector<FlatGroupToWrite>& groups, TargetFiles& target) {
  FrozenPartsToWrite frozen(request, options, coordinate);
  auto add = [&](std::int64_t first, std::int64_t end) {
    return StatesComposer(request, options, carried, experts, coordinate, groups, frozen)
        .AddTo(folder, first, end, target);
  };
  UCP_RETURN_IF_ERROR(add(0, 1));
  if (options.stage == 3 && experts.are_fused()) {  // Each partition names its own experts.
    for (std::int64_t partition = 1; partition < options.dp; ++partition) {
      UCP_RETURN_IF_ERROR(add(partition, partition + 1));
    }
  } else if (options.stage == 3 && options.dp > 1) {
    UCP_RETURN_IF_ERROR(add(1, options.dp));
  }
  frozen.AddShards(target);
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
