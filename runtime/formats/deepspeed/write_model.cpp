#include "runtime/formats/deepspeed/write_model.h"

#include <algorithm>
#include <set>

#include "compiler/support/error.h"
#include "runtime/formats/deepspeed/file_names.h"
#include "runtime/formats/deepspeed/write_module.h"
#include "runtime/formats/pytorch/value_access.h"

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
                 const std::vector<FlatGroupToWrite>& groups)
      : request_(request),
        options_(options),
        carried_(carried),
        experts_(experts),
        coordinate_(coordinate),
        groups_(groups),
        composer_(request.training),
        module_(request, options, composer_) {}

  llvm::Error AddTo(const std::string& folder, TargetFiles& target) {
    for (const LogicalTensor& tensor : request_.tensors) {
      if (IsHeldAt(*request_.layout.Find(tensor.name), coordinate_) && experts_.IsHeldAt(tensor.name, 0)) {
        held_.push_back(&tensor);
        if (IsFrozenExpert(tensor) && experts_.ep() > 1) has_fragments_ = false;
      }
    }
    UCP_ASSIGN_OR_RETURN(ValuePtr root, Root());
    module_.AddShards(AddFile(target, folder + "/" + ModelStatesName(mp(), CheckpointFiles{}), composer_.Compose(root)),
                      target);
    return llvm::Error::success();
  }

 private:
  std::int64_t mp() const { return coordinate_.At("pp") * options_.tp + coordinate_.At("tp"); }

  llvm::Expected<ValuePtr> Root() {
    std::vector<Entry> root;
    auto add = [&](const char* key, ValuePtr value) { root.push_back({MakeText(key), std::move(value)}); };
    std::vector<Entry> frozen, frozen_shapes;
    ValuePtr module = MakeNone();
    if (!request_.training.pipeline) {
      UCP_ASSIGN_OR_RETURN(module, Module(frozen));
    } else if (options_.stage == 2) {
      for (const LogicalTensor* tensor : held_) {
        if (tensor->kind != TensorKind::kFrozen) continue;
        UCP_ASSIGN_OR_RETURN(ValuePtr value, module_.Add(*tensor, coordinate_));
        frozen.push_back({MakeText(tensor->name), std::move(value)});
      }
    }
    for (const Entry& entry : frozen) {
      frozen_shapes.push_back({entry.key, Shape(entry.value->As<pytorch::Tensor>()->sizes)});
    }
    add("module", std::move(module));
    add("buffer_names", BufferNames());
    add("optimizer", MakeNone());
    add("param_shapes", ParamShapes());
    const bool lists_frozen = options_.stage == 2;
    for (const LogicalTensor* tensor : held_) {
      if (IsFrozenExpert(*tensor) && !has_fragments_)
        frozen_shapes.push_back({MakeText(tensor->name), Shape(tensor->shape)});
    }
    add("frozen_param_shapes", lists_frozen ? MakeOrderedDict(std::move(frozen_shapes)) : MakeNone());
    add("shared_params", SharedParams());
    add("frozen_param_fragments", lists_frozen && has_fragments_ ? MakeOrderedDict(std::move(frozen)) : MakeNone());
    for (Entry& entry : composer_.AddEntries(carried_.engine)) root.push_back(std::move(entry));
    add("dp_world_size", MakeInteger(options_.dp));
    add("mp_world_size", MakeInteger(options_.mp()));
    add("checkpoint_parallel_dimensions", MakeDict({{MakeText("pp_degree"), MakeInteger(options_.pp)},
                                                    {MakeText("tp_degree"), MakeInteger(options_.tp)}}));
    if (experts_.any()) {
      std::vector<ValuePtr> counts;
      for (std::int64_t count : experts_.CountsOf(coordinate_.At("pp"))) counts.push_back(MakeInteger(count));
      add("num_experts", MakeList(std::move(counts)));
      add("ds_autoep_layers", MakeNone());
    }
    for (Entry& entry : composer_.AddEntries(carried_.client[static_cast<std::size_t>(mp())])) {
      root.push_back(std::move(entry));
    }
    return MakeDict(std::move(root));
  }

  // Second names share the tensor, as they do in a module. `frozen` receives the frozen parameters among them.
  llvm::Expected<ValuePtr> Module(std::vector<Entry>& frozen) {
    std::vector<Entry> module;
    for (const LogicalTensor* tensor : held_) {
      const bool is_in_module = !experts_.IsExpert(tensor->name);
      const bool is_listed = options_.stage == 2 && IsFrozenExpert(*tensor) && has_fragments_;
      if (!is_in_module && !is_listed) continue;
      UCP_ASSIGN_OR_RETURN(ValuePtr value, module_.Add(*tensor, coordinate_));
      for (const std::string& alias : request_.layout.Find(tensor->name)->aliases) {
        module.push_back({MakeText(alias), value});
      }
      if (tensor->kind == TensorKind::kFrozen) frozen.push_back({MakeText(tensor->name), value});
      if (is_in_module) module.push_back({MakeText(tensor->name), std::move(value)});
    }
    for (Entry& entry : composer_.AddEntries(ModuleExtras(request_.training, options_, mp()))) {
      module.push_back(std::move(entry));
    }
    return MakeOrderedDict(std::move(module));
  }

  ValuePtr BufferNames() const {
    std::vector<ValuePtr> names;
    for (const LogicalTensor* tensor : held_) {
      if (tensor->kind == TensorKind::kBuffer) names.push_back(MakeText(tensor->name));
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
  ValuePtr SharedParams() const {
    std::vector<Entry> shared;
    if (mp() == 0) {
      for (const auto& [alias, name] : request_.training.aliases) shared.push_back({MakeText(alias), MakeText(name)});
    }
    return MakeDict(std::move(shared));
  }

  const TargetRequest& request_;
  const WriteOptions& options_;
  const Carried& carried_;
  const ExpertsToWrite& experts_;
  const Coordinate& coordinate_;
  const std::vector<FlatGroupToWrite>& groups_;
  ArchiveComposer composer_;
  ModuleToWrite module_;
  std::vector<const LogicalTensor*> held_;
  // Every rank loads the frozen parameters of the list, by its own names: those of experts would be the first rank's on
  // all. Without the list they come from the module and the experts' files.
  bool has_fragments_ = true;
};

std::string LayerFileName(std::int64_t layer, std::int64_t tp, bool has_tensor_axis) {
  return has_tensor_axis ? fmt::format("layer_{:02}-model_{:02}-model_states.pt", layer, tp)
                         : fmt::format("layer_{:02}-model_states.pt", layer);
}

// A layer is on one stage; a tied one on several, and the first has the copy that counts.
Coordinate FirstHolder(const TensorLayout& layout, const WriteOptions& options, std::int64_t tp) {
  Coordinate coordinate{{{"pp", 0}, {"tp", tp}}};
  while (!IsHeldAt(layout, coordinate) && coordinate.at["pp"] + 1 < options.pp) ++coordinate.at["pp"];
  return coordinate;
}

}  // namespace

llvm::Error AddModelStates(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                           const ExpertsToWrite& experts, const std::string& folder, const Coordinate& coordinate,
                           const std::vector<FlatGroupToWrite>& groups, TargetFiles& target) {
  return StatesComposer(request, options, carried, experts, coordinate, groups).AddTo(folder, target);
}

llvm::Error AddLayerFiles(const TargetRequest& request, const WriteOptions& options, const std::string& folder,
                          TargetFiles& target) {
  const PipelineLayers& pipeline = *request.training.pipeline;
  std::set<const LogicalTensor*> in_files;
  for (const auto& [layer, prefix] : pipeline.prefixes) {
    for (std::int64_t tp = 0; tp < options.tp; ++tp) {
      ArchiveComposer composer(request.training);
      ModuleToWrite module(request, options, composer);
      std::vector<Entry> entries;
      std::int64_t stage = 0;
      for (const LogicalTensor& tensor : request.tensors) {
        if (!tensor.name.starts_with(prefix)) continue;
        const Coordinate coordinate = FirstHolder(*request.layout.Find(tensor.name), options, tp);
        stage = coordinate.At("pp");
        UCP_ASSIGN_OR_RETURN(ValuePtr value, module.Add(tensor, coordinate));
        entries.push_back({MakeText(tensor.name.substr(prefix.size())), std::move(value)});
        in_files.insert(&tensor);
      }
      for (Entry& entry : composer.AddEntries(ModuleExtras(request.training, options, stage * options.tp + tp))) {
        const std::string name(pytorch::AsText(*entry.key).value_or(""));
        if (name.starts_with(prefix)) entries.push_back({MakeText(name.substr(prefix.size())), entry.value});
      }
      const std::string name = LayerFileName(layer, tp, pipeline.has_tensor_axis || options.tp > 1);
      ComposedArchive archive = composer.Compose(MakeOrderedDict(std::move(entries)));
      module.AddShards(AddFile(target, folder + "/" + name, archive), target);
    }
  }
  for (const LogicalTensor& tensor : request.tensors) {
    if (in_files.contains(&tensor)) continue;
    return Fail(ErrorCode::kUnsupported,
                "the source does not say which layer of the pipeline `{}` belongs to: none of its layer files holds it",
                tensor.name);
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
