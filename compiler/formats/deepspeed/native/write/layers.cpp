// A pipeline's weights: one file for each layer and tensor rank, with names that are local to the layer.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/native/write/model.h"
#include "compiler/formats/deepspeed/native/write/module.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/wrapper_names.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeOrderedDict;
using pytorch::MakeText;
using pytorch::ValuePtr;

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

// Without ZeRO, the order of a layer's file says which parameter of a group is which (zero0_names.h), as that of a
// module does (model.cpp).
std::vector<const LogicalTensor*> TensorsInOrder(const TargetRequest& request, const WriteOptions& options) {
  std::map<std::string_view, const LogicalTensor*> unlisted;
  for (const LogicalTensor& tensor : request.tensors) unlisted.emplace(tensor.name, &tensor);
  std::vector<const LogicalTensor*> ordered;
  for (const OptimizerGroup& group : request.training.groups) {
    for (const std::string& name : group.parameters) {
      const auto found = unlisted.find(name);
      if (options.stage != 0 || found == unlisted.end()) continue;
      ordered.push_back(found->second);
      unlisted.erase(found);
    }
  }
  for (const auto& [name, tensor] : unlisted) ordered.push_back(tensor);
  return ordered;
}

}  // namespace

llvm::Error AddLayerFiles(const TargetRequest& request, const WriteOptions& options, const std::string& folder,
                          TargetFiles& target) {
  const PipelineLayers& pipeline = *StateOf(request.training).pipeline;
  const std::vector<const LogicalTensor*> tensors = TensorsInOrder(request, options);
  std::set<const LogicalTensor*> in_files;
  for (const auto& [layer, prefix] : pipeline.prefixes) {
    for (std::int64_t tp = 0; tp < options.tp; ++tp) {
      ArchiveComposer composer(request.training);
      ModuleToWrite module(request, options, composer);
      std::vector<Entry> entries;
      std::int64_t stage = 0;
      for (const LogicalTensor* tensor : tensors) {
        if (!tensor->name.starts_with(prefix)) continue;
        const Coordinate coordinate = FirstHolder(*request.layout.Find(tensor->name), options, tp);
        stage = coordinate.At("pp");
        UCP_ASSIGN_OR_RETURN(ValuePtr value, module.Add(*tensor, coordinate));
        entries.push_back({MakeText(NameInStateDict(tensor->name.substr(prefix.size()))), std::move(value)});
        in_files.insert(tensor);
      }
      for (Entry& entry : composer.AddEntries(ModuleExtras(request.training, options, stage * options.tp + tp))) {
        const std::string name(pytorch::AsText(*entry.key).value_or(""));
        if (name.starts_with(prefix)) entries.push_back({MakeText(name.substr(prefix.size())), entry.value});
      }
      const std::string name = LayerFileName(layer, tp, pipeline.has_tensor_axis || options.tp > 1);
      ComposedArchive archive = composer.Compose(MakeOrderedDict(std::move(entries)));
      module.AddShards(AddFile(target, folder + "/" + name, std::move(archive)), target);
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
