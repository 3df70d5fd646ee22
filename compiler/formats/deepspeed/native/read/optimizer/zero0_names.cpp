#include "compiler/formats/deepspeed/native/read/optimizer/zero0_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/formats/deepspeed/native/read/optimizer/zero0_values.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr const char* kEitherOrder =
    "routers of AutoEP have the shapes of other parameters, and can stand before or behind these";

class Namer {
 public:
  Namer(const SourceArchives& archives, const WholeOptimizer& optimizer, const std::string& folder, ModelStates& states)
      : archives_(archives), optimizer_(optimizer), folder_(folder), states_(states) {}

  llvm::Error Run() {
    FindCandidates();
    const std::string why = InEitherOrder();
    if (why.empty()) return llvm::Error::success();
    if (optimizer_.form == WholeForm::kModule) return FailWithoutNames(folder_, states_, why);
    UCP_ASSIGN_OR_RETURN(const std::string why_not, ByValues());
    if (why_not.empty()) return llvm::Error::success();
    return FailWithoutNames(folder_, states_, fmt::format("{}, and by values {}", why, why_not));
  }

 private:
  struct Candidate {
    std::string name;
    TensorPlace place;
  };

  using Candidates = std::vector<std::pair<std::string, TensorPlace>>;

  // AutoEP makes routers anew; in a group that the job had made before, they come behind the others.
  bool IsLate(const std::string& name) const {
    return std::any_of(states_.autoep_layers.begin(), states_.autoep_layers.end(), [&](const AutoEpLayer& layer) {
      const std::string module = layer.prefix.substr(0, layer.prefix.rfind('.') + 1);
      return name.starts_with(module + "router.");
    });
  }

  // The candidates with what is late behind the others.
  std::vector<Candidate> InLateOrder() const {
    std::vector<Candidate> late = candidates_;
    std::stable_partition(late.begin(), late.end(), [&](const Candidate& other) { return !IsLate(other.name); });
    return late;
  }

  static Candidates Listed(const std::vector<Candidate>& candidates) {
    Candidates listed;
    for (const Candidate& candidate : candidates) listed.emplace_back(candidate.name, candidate.place);
    return listed;
  }

  std::string InEitherOrder() {
    std::string why = ByHeaders();
    const auto is_early = [&](const Candidate& candidate) { return !IsLate(candidate.name); };
    if (std::all_of(candidates_.begin(), candidates_.end(), is_early)) return why;
    const std::vector<std::vector<NamedShape>> as_module = std::move(states_.param_shapes);
    std::vector<Candidate> in_order = std::exchange(candidates_, InLateOrder());
    states_.param_shapes.clear();
    const std::string why_late = ByHeaders();
    candidates_ = std::move(in_order);
    if (!why.empty()) return why_late.empty() ? "" : why;
    if (!why_late.empty() || states_.param_shapes == as_module) {
      states_.param_shapes = as_module;
      return "";
    }
    return kEitherOrder;
  }

  // Empty if values tell, in the module's order or with what is late behind it.
  llvm::Expected<std::string> ByValues() {
    const Candidates in_order = Listed(candidates_);
    const Candidates late = Listed(InLateOrder());
    UCP_ASSIGN_OR_RETURN(NamedByValues named, NameByValues(archives_, optimizer_, in_order));
    UCP_ASSIGN_OR_RETURN(NamedByValues named_late, NameByValues(archives_, optimizer_, late));
    if (named.why_not.empty() && named_late.why_not.empty() && named.groups != named_late.groups) return kEitherOrder;
    if (named.why_not.empty() || named_late.why_not.empty()) {
      states_.param_shapes = std::move(named.why_not.empty() ? named.groups : named_late.groups);
      return "";
    }
    // Copied one by one, as beside experts, tensors need not say where they are if one flat group has all of them.
    UCP_ASSIGN_OR_RETURN(const bool fits, AreBehindEachOther(archives_, optimizer_, in_order));
    UCP_ASSIGN_OR_RETURN(const bool fits_late, AreBehindEachOther(archives_, optimizer_, late));
    const std::vector<NamedShape> all = Shapes(in_order);
    if (fits && fits_late && all != Shapes(late)) return kEitherOrder;
    if (!fits && !fits_late) return std::move(named.why_not);
    states_.param_shapes = {fits ? all : Shapes(late)};
    return "";
  }

  static std::vector<NamedShape> Shapes(const Candidates& candidates) {
    std::vector<NamedShape> shapes;
    for (const auto& [name, place] : candidates) shapes.push_back({name, place.sizes});
    return shapes;
  }

  // Each way says why it does not lead anywhere; empty if it does.
  std::string ByHeaders() {
    switch (optimizer_.form) {
      case WholeForm::kFlatGroups:
        return states_.has_module ? ByViews() : AsOneGroup();
      case WholeForm::kParameters:
      case WholeForm::kModule:
        return ByShapes();
    }
    UCP_UNREACHABLE();
  }

  // Tensors of the module that can be trained. Second names of the same memory come later in the module, and are left
  // out; also those of buffers, which `buffer_names` lacks.
  void FindCandidates() {
    std::multimap<std::pair<RecordId, std::int64_t>, const TensorPlace*> named;  // By where they begin.
    auto is_named = [&](const TensorPlace& place) {
      const auto [first, last] = named.equal_range({place.record, place.offset});
      return std::any_of(first, last, [&](const auto& other) { return other.second->IsSameMemory(place); });
    };
    auto add_name = [&](const TensorPlace& place) {
      if (place.elements > 0) named.emplace(std::pair(place.record, place.offset), &place);
    };
    for (const auto& [name, place] : states_.module.tensors) {
      if (states_.buffer_names.contains(name)) add_name(place);
    }
    for (const auto& [name, place] : states_.module.tensors) {
      if (states_.buffer_names.contains(name) || name.ends_with("_extra_state") || is_named(place)) continue;
      candidates_.push_back({name, place});
      add_name(place);
    }
  }

  std::string ByViews() {
    std::map<RecordId, std::vector<Candidate>> views;
    for (const Candidate& candidate : candidates_) views[candidate.place.record].push_back(candidate);
    for (std::size_t g = 0; g < optimizer_.groups.size(); ++g) {
      const std::int64_t elements = optimizer_.groups[g].tensors.front().master.elements;
      std::vector<std::vector<NamedShape>> fits;
      for (auto& [record, members] : views) {
        if (auto tiles = TilesOf(members, elements)) fits.push_back(std::move(*tiles));
      }
      if (fits.size() != 1) {
        return fmt::format(
            "the master of group {} has {} elements, and {} vectors of the module have parameters "
            "for exactly as many",
            g, elements, fits.size());
      }
      states_.param_shapes.push_back(std::move(fits.front()));
    }
    return "";
  }

  // The views in their order, if they lie behind each other without a gap and have so many elements.
  static std::optional<std::vector<NamedShape>> TilesOf(std::vector<Candidate>& views, std::int64_t elements) {
    std::sort(views.begin(), views.end(),
              [](const Candidate& a, const Candidate& b) { return a.place.offset < b.place.offset; });
    std::vector<NamedShape> tiles;
    std::int64_t end = 0;
    for (const Candidate& view : views) {
      if (view.place.offset != end || !view.place.strides.empty()) return std::nullopt;
      end += view.place.elements;
      tiles.push_back({view.name, view.place.sizes});
    }
    return end == elements ? std::optional(std::move(tiles)) : std::nullopt;
  }

  std::string AsOneGroup() {
    if (optimizer_.groups.size() != 1) {
      return fmt::format(
          "the parameters of its {} groups are one vector each, and the weights of a pipeline are saved layer by layer",
          optimizer_.groups.size());
    }
    std::vector<NamedShape>& shapes = states_.param_shapes.emplace_back();
    for (const Candidate& candidate : candidates_) shapes.push_back({candidate.name, candidate.place.sizes});
    return "";
  }

  // Parameters without states: before the first step, or where the optimizer keeps none. A group that has as many
  // parameters as the module has all of them, in its order.
  bool IsTheWholeModule() const {
    return optimizer_.groups.size() == 1 && optimizer_.groups.front().tensors.size() == candidates_.size();
  }

  std::string AllInTheModulesOrder() {
    std::vector<NamedShape>& shapes = states_.param_shapes.emplace_back();
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const TensorPlace* same_shaped = SameShapedTensorOf(optimizer_.form, optimizer_.groups.front().tensors[i]);
      const Sizes& sizes = candidates_[i].place.sizes;
      if (same_shaped != nullptr && same_shaped->sizes != sizes) {
        return fmt::format("in the module's order parameter {} is `{}`, of [{}], and it has states of [{}]", i,
                           candidates_[i].name, fmt::join(sizes, ", "), fmt::join(same_shaped->sizes, ", "));
      }
      shapes.push_back({candidates_[i].name, sizes});
    }
    return "";
  }

  // The candidates of one shape.
  struct OfShape {
    std::vector<std::size_t> places;      // In candidates_.
    std::optional<std::size_t> asked_by;  // The group that has parameters of this shape.
    std::size_t taken = 0;
  };

  std::string NameGroup(std::size_t g, std::map<Sizes, OfShape>& shapes) {
    std::vector<NamedShape>& named = states_.param_shapes.emplace_back();
    std::size_t next = 0;
    for (std::size_t i = 0; i < optimizer_.groups[g].tensors.size(); ++i) {
      const TensorPlace* same_shaped = SameShapedTensorOf(optimizer_.form, optimizer_.groups[g].tensors[i]);
      if (same_shaped == nullptr) {
        return fmt::format("there is no state of parameter {} of group {} that would have its shape", i, g);
      }
      const Sizes& sizes = same_shaped->sizes;
      OfShape& of_shape = shapes[sizes];
      if (!of_shape.asked_by) of_shape.asked_by = g;
      if (*of_shape.asked_by != g) {
        return fmt::format("groups {} and {} both have parameters of [{}]", *of_shape.asked_by, g,
                           fmt::join(sizes, ", "));
      }
      const std::size_t number = of_shape.taken++;
      if (number >= of_shape.places.size()) {
        return fmt::format("group {} has {} parameters of [{}] or more, and the module {}", g, number + 1,
                           fmt::join(sizes, ", "), of_shape.places.size());
      }
      const std::size_t place = of_shape.places[number];
      if (place < next) {
        return fmt::format(
            "group {} does not have its parameters in the module's order, in which [{}] of "
            "parameter {} comes before",
            g, fmt::join(sizes, ", "), i);
      }
      next = place + 1;
      named.push_back({candidates_[place].name, sizes});
    }
    return "";
  }

  std::string ByShapes() {
    if (IsTheWholeModule() && HasUnknownShapes(optimizer_)) return AllInTheModulesOrder();
    std::map<Sizes, OfShape> shapes;
    for (std::size_t i = 0; i < candidates_.size(); ++i) shapes[candidates_[i].place.sizes].places.push_back(i);
    for (std::size_t g = 0; g < optimizer_.groups.size(); ++g) {
      std::string problem = NameGroup(g, shapes);
      if (!problem.empty()) return problem;
    }
    for (const auto& [sizes, of_shape] : shapes) {
      if (!of_shape.asked_by || of_shape.taken == of_shape.places.size()) continue;
      return fmt::format("it steps {} of the {} parameters of [{}]", of_shape.taken, of_shape.places.size(),
                         fmt::join(sizes, ", "));
    }
    return "";
  }

  const SourceArchives& archives_;
  const WholeOptimizer& optimizer_;
  const std::string& folder_;
  ModelStates& states_;
  std::vector<Candidate> candidates_;
};

}  // namespace

llvm::Error FailWithoutNames(const std::string& folder, const ModelStates& states, const std::string& why) {
  return Fail(ErrorCode::kUnsupported,
              "`{}`: `{}` was saved without ZeRO and does not say which parameter is which in its optimizer: {}; a "
              "checkpoint of ZeRO stage 1 to 3 says it",
              folder, states.path, why);
}

llvm::Error NameParameters(const SourceArchives& archives, const WholeOptimizer& optimizer, const std::string& folder,
                           ModelStates& states) {
  return Namer(archives, optimizer, folder, states).Run();
}

}  // namespace ucp::deepspeed
