#include "tests/unit/compiler/planner/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "compiler/planner/join.h"
#include "compiler/support/error.h"

namespace ucp::oracle {
namespace {

std::string SideText(const std::vector<TensorCut>& tensors, const Strategy& strategy) {
  std::string text;
  for (const TensorCut& tensor : tensors) {
    TensorLayout layout;
    layout.dims = tensor.dims;
    layout.stages = tensor.stages;
    layout.only_at = tensor.only_at;
    layout.mean_axes = tensor.mean_axes;
    text += ucp::ToString(layout) + " ";
  }
  constexpr const char* kStyles[] = {"flat", "each", "single", "transposed"};
  std::string rounded = strategy.rounded ? fmt::format(" rounded to {}", Name(*strategy.rounded)) : "";
  return fmt::format("{}{} {}/{} gap {} lead {}{}{}", text, ucp::ToString(strategy.mesh),
                     kStyles[static_cast<int>(strategy.style)], strategy.ranks, strategy.gap, strategy.lead,
                     strategy.stripped ? " stripped" : "", strategy.weights ? " weights" : "") +
         (strategy.apart ? " apart" : "") + rounded + (strategy.trained ? "" : " only") +
         (strategy.fuse == 0 ? "" : fmt::format(" fused by {}", strategy.fuse));
}

}  // namespace

std::string ToString(const Conversion& conversion) {
  return SideText(conversion.source, conversion.from) + " -> " + SideText(conversion.target, conversion.to) +
         (conversion.preference.empty() ? "" : " believing " + ucp::ToString(conversion.preference.named));
}

llvm::Expected<Plan> MakePlan(const Side& source, const Side& target, ReplicaPolicy replicas,
                              const RankPreference& preference) {
  Inventory inventory = AsInventory(source);
  inventory.preference = preference;
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, inventory));
  return ucp::MakePlan({source.layout, inventory, target.layout, tensors, "spec", replicas}, target.files);
}

llvm::Expected<Compiled> Compile(const Conversion& conversion, ReplicaPolicy replicas) {
  std::vector<TensorCut> target = conversion.target;
  for (std::size_t t = 0; t < target.size(); ++t) {
    for (const std::string& axis : conversion.source[t].mean_axes) target[t].terms *= conversion.from.mesh.Size(axis);
  }
  Compiled compiled{Build(conversion.source, conversion.from), Build(target, conversion.to), {}};
  UCP_ASSIGN_OR_RETURN(compiled.plan, MakePlan(compiled.source, compiled.target, replicas, conversion.preference));
  return compiled;
}

std::string Flaw(const Compiled& compiled, std::int64_t chunk) {
  std::size_t rank = 1;
  for (const PlanTensor& tensor : compiled.plan.tensors) rank = std::max(rank, tensor.logical.shape.size());
  const bool is_fused = std::any_of(compiled.plan.writes.begin(), compiled.plan.writes.end(),
                                    [](const PlanWrite& write) { return write.fused.has_value(); });
  std::size_t steps = 0;
  for (Steps form : {Steps::kOfBoxes, Steps::kJoined}) {
    Outcome outcome = Execute(compiled.plan, compiled.source.memory, chunk, form);
    if (!outcome.problem.empty()) return outcome.problem;
    if (!is_fused && outcome.most_boxes_of_a_pair > 2 * rank - 1) {
      return fmt::format("a pair of flat ranges of {} dimensions meets in {} boxes", rank,
                         outcome.most_boxes_of_a_pair);
    }
    std::string difference = Difference(compiled.target.files.storage, compiled.target.memory, outcome.target);
    if (!difference.empty()) return difference;
    if (form == Steps::kJoined && outcome.steps > steps) {
      return fmt::format("{} steps were joined to {}", steps, outcome.steps);
    }
    steps = outcome.steps;
  }
  return "";
}

std::int64_t Pick(Random& random, std::int64_t first, std::int64_t last) {
  return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last - first + 1));
}

namespace {

using Axes = std::vector<std::string>;

Axes Some(Random& random, const Axes& axes) {
  Axes some;
  for (const std::string& axis : axes) {
    if (Pick(random, 0, 1) == 0) some.push_back(axis);
  }
  return some;
}

Axes Without(const Axes& axes, const Axes& others) {
  Axes rest;
  for (const std::string& axis : axes) {
    if (std::find(others.begin(), others.end(), axis) == others.end()) rest.push_back(axis);
  }
  return rest;
}

// Expressions of a given logical length that cut by some of `axes`, each at most once in a product.
class ExpressionMaker {
 public:
  ExpressionMaker(Random& random, const Mesh& mesh) : random_(random), mesh_(mesh) {}

  ShapeExpr Make(std::int64_t length, const Axes& axes) {
    while (true) {
      ShapeExpr expr = Any(length, axes, 3);
      bool fits = true;
      for (const Coordinate& coordinate : AllCoordinates(mesh_)) {
        fits = fits && Positions(expr, mesh_, coordinate).has_value();
      }
      if (fits) return expr;
    }
  }

 private:
  ShapeExpr Any(std::int64_t length, const Axes& axes, int depth) {
    switch (depth == 0 ? 0 : Pick(random_, 0, 5)) {
      case 1:
      case 2:
        return Cut(length, axes, depth);
      case 3:
        return Padded(length, axes);
      case 4:
        return Product(length, axes, depth);
      case 5:
        return Sum(length, axes, depth);
      default:
        return ShapeExpr::Length(length);
    }
  }

  ShapeExpr Cut(std::int64_t length, const Axes& axes, int depth) {
    Axes by = Some(random_, axes);
    ShapeExpr inner = Any(length, Without(axes, by), depth - 1);
    return by.empty() ? inner : WithRule(ShapeExpr::Cut(std::move(inner), by));
  }

  // Widths and lists are for a number of places, which must be the same at every coordinate.
  ShapeExpr WithRule(ShapeExpr cut) {
    constexpr CutRule kRules[] = {CutRule::kEven,   CutRule::kEven,      CutRule::kChunk, CutRule::kSpread,
                                  CutRule::kWidths, CutRule::kReplicate, CutRule::kList};
    bool is_cut_inside = !CuttingAxes(cut.operands[0]).empty();
    cut.rule = kRules[Pick(random_, 0, std::ssize(kRules) - 1)];
    if (cut.rule == CutRule::kSpread) cut.grain = Pick(random_, 1, 3);
    if (is_cut_inside && (cut.rule == CutRule::kWidths || cut.rule == CutRule::kList)) cut.rule = CutRule::kChunk;
    std::int64_t places = is_cut_inside ? 0 : std::ssize(*Positions(cut.operands[0], mesh_, {}));
    std::int64_t degree = 1;
    for (const std::string& axis : cut.axes) degree *= mesh_.Size(axis);
    auto someone = [&] { return static_cast<std::size_t>(Pick(random_, 0, degree - 1)); };
    if (cut.rule == CutRule::kWidths) {
      cut.widths.resize(static_cast<std::size_t>(degree));
      for (std::int64_t place = 0; place < places; ++place) ++cut.widths[someone()];
    }
    if (cut.rule == CutRule::kList) cut.lists = RandomLists(places, static_cast<std::size_t>(degree), someone);
    return cut;
  }

  // Every place once or twice, at times in any order.
  std::vector<List> RandomLists(std::int64_t places, std::size_t degree, llvm::function_ref<std::size_t()> someone) {
    std::vector<List> lists(degree);
    for (std::int64_t place = 0; place < places; ++place) {
      std::size_t first = someone();
      std::size_t second = Pick(random_, 0, 4) == 0 ? someone() : first;
      lists[first].push_back(place);
      if (second != first) lists[second].push_back(place);
    }
    for (List& list : lists) {
      if (Pick(random_, 0, 2) != 0) std::shuffle(list.begin(), list.end(), random_);
    }
    return lists;
  }

  ShapeExpr Padded(std::int64_t length, const Axes& axes) {
    Axes by = Some(random_, axes);
    std::int64_t multiple = Pick(random_, 1, 5);
    for (const std::string& axis : by) multiple *= mesh_.Size(axis);
    ShapeExpr padded = ShapeExpr::Pad(ShapeExpr::Length(length), multiple);
    return by.empty() ? padded : ShapeExpr::Cut(padded, by);
  }

  ShapeExpr Product(std::int64_t length, const Axes& axes, int depth) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 2; d < length; ++d) {
      if (length % d == 0) divisors.push_back(d);
    }
    if (divisors.empty()) return ShapeExpr::Length(length);
    std::int64_t outer = divisors[static_cast<std::size_t>(Pick(random_, 0, std::ssize(divisors) - 1))];
    Axes of_outer = Some(random_, axes);
    ShapeExpr left = Any(outer, of_outer, depth - 1);
    return ShapeExpr::Product({left, Any(length / outer, Without(axes, of_outer), depth - 1)});
  }

  ShapeExpr Sum(std::int64_t length, const Axes& axes, int depth) {
    if (length < 2) return ShapeExpr::Length(length);
    std::int64_t first = Pick(random_, 1, length - 1);
    return ShapeExpr::Sum({Any(first, axes, depth - 1), Any(length - first, axes, depth - 1)});
  }

  Random& random_;
  const Mesh& mesh_;
};

Mesh RandomMesh(Random& random) {
  return {{{"pp", Pick(random, 1, 2)}, {"tp", Pick(random, 1, 4)}, {"ep", Pick(random, 1, 3)}}};
}

// Every axis but pp may cut one dimension; each tensor stands on one stage or on all.
std::vector<TensorCut> RandomCuts(Random& random, const Mesh& mesh,
                                  const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<TensorCut> tensors;
  for (const std::vector<std::int64_t>& shape : shapes) {
    TensorCut tensor;
    Axes free = {"tp", "ep"};
    for (std::int64_t length : shape) {
      Axes axes = Some(random, free);
      free = Without(free, axes);
      tensor.dims.push_back(ExpressionMaker(random, mesh).Make(length, axes));
    }
    if (Pick(random, 0, 2) != 0) tensor.stages = {Pick(random, 0, mesh.Size("pp") - 1)};
    for (const std::string& axis : free) {
      if (Pick(random, 0, 2) != 0) continue;
      for (std::int64_t i = 0; i < mesh.Size(axis); ++i) {
        if (Pick(random, 0, 1) == 0) tensor.only_at[axis].push_back(i);
      }
      if (tensor.only_at[axis].empty()) tensor.only_at[axis] = {mesh.Size(axis) - 1};
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

Strategy RandomStrategy(Random& random, bool is_source) {
  Strategy strategy;
  strategy.mesh = RandomMesh(random);
  strategy.style = static_cast<Style>(Pick(random, 0, is_source ? 3 : 2));
  strategy.ranks = Pick(random, 1, 5);
  strategy.gap = Pick(random, 0, 3);
  strategy.lead = Pick(random, 0, 2);
  strategy.stripped = is_source && Pick(random, 0, 1) == 0;
  strategy.weights = is_source && Pick(random, 0, 3) == 0;
  strategy.apart = is_source && Pick(random, 0, 3) == 0;
  return strategy;
}

}  // namespace

Conversion RandomFusedConversion(Random& random) {
  Conversion conversion{{}, {}, RandomStrategy(random, true), RandomStrategy(random, false)};
  constexpr std::int64_t kLongest[] = {1, 12, 6, 4};
  std::vector<std::int64_t> shape(static_cast<std::size_t>(Pick(random, 1, 3)));
  for (std::int64_t& length : shape) length = Pick(random, 1, kLongest[shape.size()]);
  std::vector<std::vector<std::int64_t>> shapes(static_cast<std::size_t>(Pick(random, 2, 4)), shape);
  for (std::vector<std::int64_t>& one : shapes) {
    if (Pick(random, 0, 2) == 0) one[0] = Pick(random, 1, kLongest[shape.size()]);
  }
  conversion.source = RandomCuts(random, conversion.from.mesh, shapes);
  conversion.target = RandomCuts(random, conversion.to.mesh, shapes);
  if (Pick(random, 0, 1) == 0) {
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      conversion.target[t] = TensorCut{};
      for (std::int64_t length : shapes[t]) conversion.target[t].dims.push_back(ShapeExpr::Length(length));
    }
  }
  conversion.to.fuse = random() | 1;
  return conversion;
}

Conversion RandomConversion(Random& random) {
  Conversion conversion{{}, {}, RandomStrategy(random, true), RandomStrategy(random, false)};
  std::vector<std::vector<std::int64_t>> shapes(static_cast<std::size_t>(Pick(random, 1, 3)));
  constexpr std::int64_t kLongest[] = {1, 24, 12, 8};
  for (std::vector<std::int64_t>& shape : shapes) {
    shape.resize(static_cast<std::size_t>(Pick(random, 0, 3)));
    for (std::int64_t& length : shape) length = Pick(random, 1, kLongest[shape.size()]);
  }
  conversion.source = RandomCuts(random, conversion.from.mesh, shapes);
  conversion.target = RandomCuts(random, conversion.to.mesh, shapes);
  return conversion;
}

void BelieveSome(Conversion& conversion, Random& random) {
  for (const Axis& axis : conversion.from.mesh.axes) {
    if (Pick(random, 0, 2) == 0) conversion.preference.named.at[axis.name] = Pick(random, 0, axis.size - 1);
  }
}

void AverageSome(Conversion& conversion, Random& random) {
  for (TensorCut& tensor : conversion.source) {
    Axes taken;
    for (const ShapeExpr& dim : tensor.dims) {
      for (const std::string& axis : CuttingAxes(dim)) taken.push_back(axis);
    }
    for (const auto& [axis, places] : tensor.only_at) taken.push_back(axis);
    tensor.mean_axes = Some(random, Without({"ep", "tp"}, taken));
  }
}

void RoundSome(Conversion& conversion, Random& random) {
  constexpr DType kTypes[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64};
  if (Pick(random, 0, 2) != 0) return;
  conversion.to.rounded = kTypes[Pick(random, 0, 3)];
  conversion.to.trained = Pick(random, 0, 1) == 0;
}

double TestSeconds() {
  const char* seconds = std::getenv("UCP_TEST_SECONDS");
  return seconds == nullptr ? 2 : std::atof(seconds);
}

std::uint64_t TestSeed() {
  const char* seed = std::getenv("UCP_TEST_SEED");
  return seed == nullptr ? 20261121 : std::strtoull(seed, nullptr, 10);
}

}  // namespace ucp::oracle
