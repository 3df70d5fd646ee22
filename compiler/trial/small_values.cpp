// A search that climbs. It begins with 12 for everything, which divides by itself and by all small degrees, changes a
// few at a time, and keeps what is not worse. Better is, in this order: fewer errors before a layout exists; more
// items of the spec that give a name and did not before; more meshes that fit; fewer elements, where a dim that is 1 or
// like another one counts as many, since it hides which is which.
#include "compiler/trial/small_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "compiler/bind/solve/solve_dims.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/spec/variant.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "compiler/trial/held_places.h"
#include "compiler/trial/reach.h"

namespace ucp {
namespace {

// Most of them divide by 2 and 3, so that cuts do.
constexpr std::array<std::int64_t, 10> kSmallValues = {1, 2, 3, 4, 6, 8, 12, 16, 24, 36};
constexpr std::int64_t kFirstValue = 12;
constexpr std::int64_t kMostElements = 150'000;
constexpr std::size_t kMostTensors = 1'000;
constexpr std::int64_t kFarTooMany = 20'000;  // Names.
constexpr std::int64_t kPriceOfOne = 30'000;  // In elements.
constexpr std::int64_t kPriceOfEqual = 5'000;
constexpr int kMostTries = 3000;  // Until a layout exists.
constexpr int kMostFits = 250;    // And then.

using Score = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // Larger is better.

std::string FirstMessage(const DiagnosticSink& sink) {
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    if (diagnostic.severity() == Severity::kError) return diagnostic.message;
  }
  return "";
}

std::int64_t Elements(const Layout& layout) {
  std::int64_t elements = 0;
  for (const TensorLayout& tensor : layout.tensors) {
    auto shape = LogicalShape(tensor);
    if (!shape) {
      llvm::consumeError(shape.takeError());
      return INT64_MAX;
    }
    std::int64_t of_tensor = 1;
    for (std::int64_t length : *shape) of_tensor = CheckedMultiply(of_tensor, length).value_or(INT64_MAX);
    elements = CheckedAdd(elements, of_tensor).value_or(INT64_MAX);
  }
  return elements;
}

// Whatever its size.
std::optional<Layout> Lower(const BoundSpec& bound, const Mesh& mesh, std::string& why) {
  DiagnosticSink sink;
  std::optional<Layout> layout = LowerToMesh(bound, {.mesh = mesh, .stage_layers = {}}, sink);
  if (!layout) why = FirstMessage(sink);
  return layout;
}

class Search {
 public:
  Search(const CheckedSpec& spec, const Settings& given, const Reached& before, Random& random)
      : spec_(spec), given_(given), before_(before), random_(random), meshes_(SmallMeshes(spec)) {
    for (const DimDeclaration& dim : spec.dims) {
      if (dim.definition || given.contains(dim.name)) continue;
      open_.push_back(dim.name);
      const bool has_default = dim.otherwise && dim.otherwise->kind == Formula::Kind::kNumber;
      if (has_default) default_of_[dim.name] = dim.otherwise->number;
    }
    AddValues(kSmallValues);
    // Values that divide by 7, and values near 7, are values of their own.
    constexpr std::int64_t kLargestNumber = 100;
    for (const std::int64_t number : NumbersOf(spec)) {
      if (number > 1 && number <= kLargestNumber) AddValues(std::array{number, number + 1, 2 * number, 12 * number});
    }
  }

  std::optional<SmallModel> Run() {
    if (HasFarTooManyNames()) return std::nullopt;
    Settings best = given_;
    for (const std::string& name : open_) best[name] = {kFirstValue};
    Score score = Try(best);
    if (has_too_many_tensors_) return std::nullopt;  // By the values that are given: the others are small.
    int fits = 0;
    for (int i = 0; i < kMostTries && fits < kMostFits && !open_.empty(); ++i) {
      Settings other = best;
      for (std::int64_t changes = Pick(random_, 1, 3); changes > 0; --changes) {
        const std::string& name = open_[static_cast<std::size_t>(Pick(random_, 0, std::ssize(open_) - 1))];
        other[name] = {AnyValue(name)};
      }
      Score other_score = Try(other);
      if (std::get<0>(other_score) == 0) ++fits;
      if (other_score < score) continue;
      score = other_score;
      best = std::move(other);
    }
    Try(best);
    return std::move(model_);
  }

  std::string why;

 private:
  // Seen without making the names, since there may be a million: those behind no guard, with 1 for what is not given.
  // How many there are exactly, binding will say.
  bool HasFarTooManyNames() {
    Settings set = given_;
    for (const std::string& name : open_) set[name] = {std::int64_t{1}};
    DiagnosticSink sink;
    const Inventory inventory;
    InventoryIndex nothing(inventory);
    const Mesh mesh;
    const auto solved = SolveDims(spec_, nothing, set, sink);
    if (!solved) return false;  // Binding will say what is wrong.
    const Values values{spec_, solved->dims, mesh, solved->facts};
    std::int64_t names = 0;
    for (const TensorDeclaration& tensor : spec_.tensors) {
      if (!tensor.guards.empty()) continue;
      auto of_pattern = static_cast<std::int64_t>(CountVariants(tensor.name));
      for (const Counter& counter : tensor.name.counters) {
        const bool is_known = values.Knows(counter.count) && !HasCounter(counter.count);
        const auto count = is_known ? Evaluate(counter.count, values, {}, sink) : std::nullopt;
        of_pattern = CheckedMultiply(of_pattern, count.value_or(0)).value_or(INT64_MAX);
      }
      names = CheckedAdd(names, of_pattern).value_or(INT64_MAX);
    }
    if (names <= kFarTooMany) return false;
    why = TooMany(names);
    return true;
  }

  static std::string TooMany(std::int64_t names) {
    return fmt::format("{} tensors are more than the {} that a trial follows; give smaller values with {}", names,
                       kMostTensors, OptionName(UserOption::kSets));
  }

  void AddValues(const auto& values) {
    for (const std::int64_t value : values) {
      if (std::ranges::find(values_, value) == values_.end()) values_.push_back(value);
    }
  }

  std::int64_t AnyValue(const std::string& name) {
    auto with_default = default_of_.find(name);
    if (with_default != default_of_.end() && Pick(random_, 0, 3) == 0) return with_default->second;
    return values_[static_cast<std::size_t>(Pick(random_, 0, std::ssize(values_) - 1))];
  }

  // Leaves the model in model_, if there is one.
  Score Try(const Settings& set) {
    model_.reset();
    DiagnosticSink sink;
    std::optional<BoundSpec> bound = BindSpec(spec_, Inventory{}, set, sink);
    if (!bound) {
      why = FirstMessage(sink);
      return {-1 - static_cast<std::int64_t>(sink.error_count()), 0, 0, 0};
    }
    has_too_many_tensors_ = bound->tensors.size() > kMostTensors;
    if (has_too_many_tensors_) {
      why = TooMany(std::ssize(bound->tensors));
      return {-1, 0, 0, 0};
    }
    SmallModel model{set, std::move(*bound), {}, {}, 0};
    std::optional<Layout> layout = Lower(model.bound, meshes_.front(), why);
    if (!layout) return {-1, 0, 0, 0};
    model.elements = Elements(*layout);
    std::string too_large = WhyTooLarge(*layout);
    if (!too_large.empty()) {
      why = std::move(too_large);
      return {-1, 0, 0, -model.elements};
    }
    if (model.elements > kMostElements && !open_.empty()) {
      why = "the model is too large for a trial";
      return {-1, 0, 0, -model.elements};
    }
    for (const Mesh& mesh : meshes_) {
      std::string misfit;
      if (FitToMesh(model.bound, mesh, misfit)) {
        model.meshes.push_back(mesh);
      } else {
        model.misfits.push_back({mesh, misfit});
      }
    }
    Reached reached = before_;
    reached.Add(model.bound);
    Score score{0, static_cast<std::int64_t>(reached.size()), std::ssize(model.meshes),
                -Confusion(model.bound) - model.elements};
    model_ = std::move(model);
    return score;
  }

  static std::int64_t Confusion(const BoundSpec& bound) {
    std::set<std::int64_t> values;
    std::int64_t price = 0;
    for (const std::optional<DimValue>& dim : bound.dims) {
      if (!dim) continue;
      if (dim->value == 1) {
        price += kPriceOfOne;
      } else if (!values.insert(dim->value).second) {
        price += kPriceOfEqual;
      }
    }
    return price;
  }

  const CheckedSpec& spec_;
  const Settings& given_;
  const Reached& before_;
  Random& random_;
  std::vector<Mesh> meshes_;
  std::vector<std::string> open_;
  std::vector<std::int64_t> values_;
  std::map<std::string, std::int64_t> default_of_;
  std::optional<SmallModel> model_;
  bool has_too_many_tensors_ = false;
};

}  // namespace

std::optional<SmallModel> ChooseSmallValues(const CheckedSpec& spec, const Settings& given, const Reached& before,
                                            Random& random, std::string& why) {
  Search search(spec, given, before, random);
  std::optional<SmallModel> model = search.Run();
  why = search.why;
  return model;
}

std::optional<Layout> FitToMesh(const BoundSpec& bound, const Mesh& mesh, std::string& why) {
  std::optional<Layout> layout = Lower(bound, mesh, why);
  std::string too_large = layout ? WhyTooLarge(*layout) : "";
  if (too_large.empty()) return layout;
  why = std::move(too_large);
  return std::nullopt;
}

}  // namespace ucp
