#include "compiler/formats/deepspeed/native/write/pipeline_order.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/pipeline_names.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

using Names = std::vector<std::string>;
using Held = std::function<bool(const std::string& name, std::int64_t stage)>;

// Of an order that is not known for other stages: how the message goes on.
struct WrongOrder {
  std::string_view whose = "the source";
  std::string_view what_is_wrong = "another one";
  std::string remedy = "convert to `universal` instead";
};

// Tied modules first, then layers by number, which is what the names of group `index` must do already.
llvm::Expected<Names> ByLayers(std::size_t index, Names names, const WrongOrder& wrong = {}) {
  std::int64_t last = -1;
  const std::string* last_name = nullptr;
  for (const std::string& name : names) {
    std::optional<std::int64_t> place = PlaceInPipeline(name);
    if (!place) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is not a parameter of a pipeline layer, so its place in the optimizer is not known", name);
    }
    if (*place < 0) continue;
    if (*place < last) {
      return Fail(
          ErrorCode::kUnsupported,
          "group {} of {}'s optimizer has `{}` after `{}`: its order is {}, so it is not known for other stages; {}",
          index, wrong.whose, name, *last_name, wrong.what_is_wrong, wrong.remedy);
    }
    last = *place;
    last_name = &name;
  }
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return *PlaceInPipeline(name) < 0; });
  return names;
}

Names OfStage(const Names& names, std::int64_t stage, const Held& is_held) {
  Names held;
  std::copy_if(names.begin(), names.end(), std::back_inserter(held),
               [&](const std::string& name) { return is_held(name, stage); });
  return held;
}

class Orderer {
 public:
  Orderer(const TrainingState& training, const Layout& layout, std::int64_t stages)
      : training_(training), layout_(layout), stages_(stages) {
    for (const std::string& name : StateOf(training).fused_experts) {
      const std::size_t experts = name.rfind(".experts.");
      if (experts != std::string::npos) modules_.insert(name.substr(0, experts));
    }
  }

  llvm::Expected<std::vector<Names>> Run() const {
    auto in_place = InPlace();
    if (modules_.empty()) return in_place;
    std::optional<std::vector<Names>> behind = Behind();
    if (!behind) return in_place;
    if (!in_place) {
      llvm::consumeError(in_place.takeError());
      return *std::move(behind);
    }
    UCP_RETURN_IF_ERROR(CheckSame(*in_place, *behind));
    return in_place;
  }

 private:
  llvm::Expected<std::vector<Names>> InPlace() const {
    WrongOrder wrong{.whose = CalledInMessages(training_)};
    if (training_.is_synthetic)
      wrong.remedy = "list them layer by layer, in the spec or with " + OptionName(UserOption::kParameters);
    wrong.what_is_wrong =
        modules_.empty() ? "not that of the layers"
                         : "neither that of the layers nor, on the source's stages, that with what AutoEP made behind "
                           "all others";
    std::vector<Names> ordered;
    for (std::size_t g = 0; g < training_.groups.size(); ++g) {
      UCP_ASSIGN_OR_RETURN(ordered.emplace_back(), ByLayers(g, training_.groups[g].parameters, wrong));
    }
    return ordered;
  }

  // Nothing if the source's stages do not have them so.
  std::optional<std::vector<Names>> Behind() const {
    std::vector<Names> ordered;
    for (std::size_t g = 0; g < training_.groups.size(); ++g) {
      const Names& names = training_.groups[g].parameters;
      Names kept, made;
      for (const std::string& name : names) (IsMadeByAutoEp(name) ? made : kept).push_back(name);
      Names& order = ordered.emplace_back();
      for (Names* part : {&kept, &made}) {
        auto by_layers = ByLayers(g, std::move(*part));
        if (!by_layers) return llvm::consumeError(by_layers.takeError()), std::nullopt;
        order.insert(order.end(), by_layers->begin(), by_layers->end());
      }
      for (std::int64_t stage = 0; stage < StateOf(training_).pipeline->stage_count; ++stage) {
        const Held was_held = [this](const std::string& name, std::int64_t at) { return WasHeldAt(name, at); };
        if (OfStage(order, stage, was_held) != OfStage(names, stage, was_held)) return std::nullopt;
      }
    }
    return ordered;
  }

  llvm::Error CheckSame(const std::vector<Names>& in_place, const std::vector<Names>& behind) const {
    const Held is_held = [this](const std::string& name, std::int64_t stage) {
      const TensorLayout* tensor = layout_.Find(name);
      return tensor == nullptr || IsHeldAt(*tensor, Coordinate{{{"pp", stage}}});
    };
    for (std::size_t g = 0; g < in_place.size(); ++g) {
      for (std::int64_t stage = 0; stage < stages_; ++stage) {
        const Names one = OfStage(in_place[g], stage, is_held), other = OfStage(behind[g], stage, is_held);
        if (one == other) continue;
        const auto made = std::find_if(one.begin(), one.end(), [&](auto& name) { return IsMadeByAutoEp(name); });
        return Fail(
            ErrorCode::kUnsupported,
            "AutoEP made `{}`, and the source's stages do not tell whether its optimizer has such parameters in the "
            "places of their layers or behind all others of their group, as it does where a job lists its parameters "
            "before `deepspeed.initialize`; keep the source's stages, or convert to `universal`",
            *made);
      }
    }
    return llvm::Error::success();
  }

  bool IsMadeByAutoEp(const std::string& name) const {
    if (StateOf(training_).fused_experts.contains(name)) return true;
    const std::size_t router = name.rfind(".router.");
    return router != std::string::npos && modules_.contains(name.substr(0, router));
  }

  bool WasHeldAt(const std::string& name, std::int64_t stage) const {
    if (StateOf(training_).pipeline->stage_count == 1) return true;
    const auto held = StateOf(training_).pipeline->stages.find(PrefixInPipeline(name));
    return held == StateOf(training_).pipeline->stages.end() || held->second.contains(stage);
  }

  const TrainingState& training_;
  const Layout& layout_;
  const std::int64_t stages_;
  std::set<std::string> modules_;  // AutoEP's layers: "3.mlp".
};

}  // namespace

llvm::Expected<std::vector<Names>> OrderOfPipeline(const TrainingState& training, const Layout& layout,
                                                   std::int64_t stages) {
  return Orderer(training, layout, stages).Run();
}

}  // namespace ucp::deepspeed
