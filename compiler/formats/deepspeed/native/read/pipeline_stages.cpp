#include "compiler/formats/deepspeed/native/read/pipeline_stages.h"

#include <llvm/ADT/StringRef.h>

#include <map>
#include <optional>
#include <set>

#include "compiler/formats/deepspeed/native/read/optimizer/zero0_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

std::optional<std::int64_t> LayerOfName(llvm::StringRef name) {
  std::int64_t layer = 0;
  if (!name.contains('.') || name.split('.').first.getAsInteger(10, layer) || layer < 0) return std::nullopt;
  return layer;
}

// The layers of one tensor-parallel rank, over all stages.
class Layers {
 public:
  Layers(const std::vector<WholeOptimizer>& optimizers, const std::string& folder, const Degrees& degrees,
         std::int64_t tensor_rank, std::vector<ModelStates>& states)
      : optimizers_(optimizers), folder_(folder), degrees_(degrees), tensor_rank_(tensor_rank), states_(states) {}

  llvm::Error Spread() {
    UCP_RETURN_IF_ERROR(Collect());
    auto next = layers_.begin();
    for (std::int64_t stage = 0; stage < degrees_.pp; ++stage) {
      UCP_ASSIGN_OR_RETURN(std::int64_t stepped, SteppedElements(stage));
      std::int64_t held = 0;
      for (; next != layers_.end(); ++next) {
        const Layer& layer = next->second;
        const bool is_later = layer.stage_of_buffers.value_or(stage) > stage;
        if (is_later || (held == stepped && layer.trained > 0)) break;
        held = CheckedAdd(held, layer.trained).value_or(-1);
        if (held < 0 || held > stepped) break;
        Give(stage, next->second);
      }
      if (held != stepped) return Unknown(stage, stepped, held);
    }
    if (next == layers_.end()) return llvm::Error::success();
    return FailWithoutNames(folder_, rank(degrees_.pp - 1),
                            fmt::format("the parameters of layer {} are stepped on no stage", next->first));
  }

 private:
  struct Layer {
    std::vector<std::pair<std::string, TensorPlace>> tensors;
    std::vector<pytorch::Entry> extras;
    std::int64_t trained = 0;                      // Elements outside of buffers.
    std::optional<std::int64_t> stage_of_buffers;  // The stage that lists its buffers.
  };

  std::size_t RankOf(std::int64_t stage) const { return static_cast<std::size_t>(stage * degrees_.tp + tensor_rank_); }
  ModelStates& rank(std::int64_t stage) const { return states_[RankOf(stage)]; }

  llvm::Error Unknown(std::int64_t stage, std::int64_t stepped, std::int64_t held) const {
    return FailWithoutNames(
        folder_, rank(stage),
        fmt::format("it steps {} elements, and the layers that follow each other there have {} (a tied module, whose "
                    "name no file has, or a frozen parameter is among them)",
                    stepped, held));
  }

  llvm::Error Collect() {
    for (std::int64_t stage = 0; stage < degrees_.pp; ++stage) {
      for (const std::string& name : rank(stage).buffer_names) {
        buffers_.insert(name);
        if (auto number = LayerOfName(name)) layers_[*number].stage_of_buffers = stage;
      }
    }
    for (std::int64_t stage = 0; stage < degrees_.pp; ++stage) {
      ModuleEntries& module = rank(stage).module;
      for (auto& [name, place] : module.tensors) UCP_RETURN_IF_ERROR(AddTensor(stage, name, std::move(place)));
      for (const pytorch::Entry& extra : module.extras) {
        auto name = pytorch::AsText(*extra.key);
        auto number = name ? LayerOfName(llvm::StringRef(name->data(), name->size())) : std::nullopt;
        if (number) layers_[*number].extras.push_back(extra);
      }
      module = {};
    }
    return llvm::Error::success();
  }

  llvm::Error AddTensor(std::int64_t stage, const std::string& name, TensorPlace place) {
    auto number = LayerOfName(name);
    if (!number) return FailWithoutNames(folder_, rank(stage), fmt::format("`{}` is in no numbered layer", name));
    Layer& layer = layers_[*number];
    const bool is_trained = !buffers_.contains(name) && !llvm::StringRef(name).ends_with("_extra_state");
    auto trained = CheckedAdd(layer.trained, is_trained ? place.elements : 0);
    if (!trained) return Fail(ErrorCode::kBadData, "`{}`: layer {} has more than 2^63 elements", folder_, *number);
    layer.trained = *trained;
    layer.tensors.emplace_back(name, std::move(place));
    return llvm::Error::success();
  }

  llvm::Expected<std::int64_t> SteppedElements(std::int64_t stage) const {
    const WholeOptimizer& optimizer = optimizers_[RankOf(stage)];
    std::int64_t elements = 0;
    for (const WholeGroup& group : optimizer.groups) {
      for (const SteppedTensor& tensor : group.tensors) {
        const TensorPlace* same_shaped = SameShapedTensorOf(optimizer.form, tensor);
        auto sum = same_shaped != nullptr ? CheckedAdd(elements, same_shaped->elements) : std::nullopt;
        if (!sum) return FailWithoutNames(folder_, rank(stage), "it has no states that would tell the shapes");
        elements = *sum;
      }
    }
    return elements;
  }

  void Give(std::int64_t stage, Layer& layer) const {
    ModuleEntries& module = rank(stage).module;
    for (auto& tensor : layer.tensors) module.tensors.push_back(std::move(tensor));
    module.extras.insert(module.extras.end(), layer.extras.begin(), layer.extras.end());
  }

  const std::vector<WholeOptimizer>& optimizers_;
  const std::string& folder_;
  const Degrees& degrees_;
  const std::int64_t tensor_rank_;
  std::vector<ModelStates>& states_;
  std::set<std::string> buffers_;
  std::map<std::int64_t, Layer> layers_;
};

}  // namespace

llvm::Error FindStagesOfLayers(const std::vector<WholeOptimizer>& optimizers, const std::string& folder,
                               const Degrees& degrees, std::vector<ModelStates>& states) {
  for (std::int64_t t = 0; t < degrees.tp; ++t) {
    UCP_RETURN_IF_ERROR(Layers(optimizers, folder, degrees, t, states).Spread());
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
