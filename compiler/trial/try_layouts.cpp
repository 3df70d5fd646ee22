#include "compiler/trial/try_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/bind/between_layouts.h"
#include "compiler/bind/offsets_between.h"
#include "compiler/bind/shard_pieces.h"
#include "compiler/planner/join.h"
#include "compiler/planner/planner.h"
#include "compiler/support/error.h"
#include "compiler/trial/carry_out.h"
#include "compiler/trial/families.h"
#include "compiler/trial/part_positions.h"
#include "compiler/trial/side.h"
#include "compiler/trial/small_meshes.h"
#include "compiler/trial/small_values.h"

namespace ucp {
namespace {

std::string FirstError(const DiagnosticSink& sink) {
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    if (diagnostic.severity() == Severity::kError) return diagnostic.message;
  }
  return "it does not fit";
}

// One layout with values, and where each element of the parts is in its tensors.
struct TriedLayout {
  BoundSpec bound;
  Layout layout;            // All tensors whole.
  std::vector<Layout> cut;  // On the small meshes that it fits.
  StoredParts stored;
  std::vector<std::vector<oracle::PartElement>> elements;  // By the layout's tensors.
  std::vector<std::int64_t> offsets;                       // Likewise.
};

// How the ranks of one side hold the tensors of a layout.
struct Held {
  const TriedLayout& tried;
  const Layout& layout;
};

class LayoutsTrial {
 public:
  LayoutsTrial(const CheckedSpec& spec, const TrialOptions& options)
      : spec_(spec), options_(options), random_(options.seed) {}

  TrialReport Run() {
    const CheckedSpec first = WithLayout(spec_, 0);
    const std::vector<Settings> families = FamiliesOf(first, options_.set, random_, report_.failure);
    for (const Settings& family : families) {
      if (!report_.failure.empty()) break;
      ++report_.families;
      std::string why;
      const std::optional<SmallModel> model = ChooseSmallValues(first, family, {}, random_, why);
      report_.values.push_back(model ? model->set : family);
      if (!model) report_.failure = fmt::format("no small values make a model of this spec: {}", why);
      if (model) TryAll(model->set);
    }
    return std::move(report_);
  }

 private:
  void TryAll(const Settings& set) {
    std::vector<TriedLayout> layouts;
    for (std::size_t i = 0; i < spec_.layouts.size(); ++i) {
      std::optional<TriedLayout> layout = Bind(i, set);
      if (!layout) return;
      layouts.push_back(std::move(*layout));
    }
    for (std::size_t a = 0; a < layouts.size(); ++a) {
      for (std::size_t b = 0; b < layouts.size(); ++b) {
        if (a != b && report_.failure.empty()) Try(layouts[a], layouts[b], layouts[(b + 1) % layouts.size()]);
        if (a != b) TryCut(layouts[a], layouts[b]);
      }
    }
  }

  std::optional<TriedLayout> Bind(std::size_t i, const Settings& set) {
    DiagnosticSink sink;
    std::optional<BoundSpec> bound = BindSpec(WithLayout(spec_, i), {}, set, sink);
    std::optional<Layout> whole = bound ? LowerWhole(*bound, sink) : std::nullopt;
    std::optional<StoredParts> stored = bound ? FindStoredParts(*bound, sink) : std::nullopt;
    llvm::Expected<Layout> layout = whole && stored ? AtomicLayout(*whole) : Layout();
    if (!whole || !stored || !layout) {
      if (!layout) sink.Report({.kind = DiagnosticKind::kBadExpression, .place = {}, .message = ""});
      if (!layout) llvm::consumeError(layout.takeError());
      report_.failure = fmt::format("layout `{}`: {}", spec_.layouts[i].name, FirstError(sink));
      return std::nullopt;
    }
    TriedLayout tried{std::move(*bound), std::move(*layout), {}, std::move(*stored), {}, {}};
    for (const Mesh& mesh : SmallMeshes(tried.bound.spec)) {
      std::string why;
      std::optional<Layout> cut = FitToMesh(tried.bound, mesh, why);
      if (cut) tried.cut.push_back(std::move(*cut));
    }
    for (const TensorLayout& tensor : tried.layout.tensors) {
      const auto named = std::ranges::find(tried.bound.tensors, tensor.name, &BoundTensor::name);
      tried.elements.push_back(oracle::PartElementsOf(tried.bound, *named));
      tried.offsets.push_back(tried.bound.spec.tensors[named->declaration].offset);
    }
    return tried;
  }

  // By the first layout: there, and then back or on to a third.
  void Try(const TriedLayout& first, const TriedLayout& second, const TriedLayout& third) {
    const Held from{first, first.layout};
    const Held over{second, second.layout};
    const Held to{third, third.layout};
    const Side source = BuildSide(first.layout, {});
    const Side half_way = Expected(first, over, {});
    const std::optional<Memory> there = Convert(from, source, over, half_way, source.memory);
    if (!there) return;
    Convert(over, half_way, from, Expected(first, from, {}), *there);
    const Side target = Expected(first, to, {});
    const std::optional<Memory> two_hops = Convert(over, half_way, to, target, *there);
    const std::optional<Memory> one_hop = Convert(from, source, to, target, source.memory);
    if (two_hops && one_hop && *two_hops != *one_hop) {
      report_.failure =
          fmt::format("from `{}` to `{}`: two hops, over `{}`, are not one", NameOf(from), NameOf(to), NameOf(over));
    }
  }

  // Each way in which either is cut has its turn.
  void TryCut(const TriedLayout& first, const TriedLayout& second) {
    for (std::size_t i = 0; i < std::max(first.cut.size(), second.cut.size()); ++i) {
      const Held from{first, first.cut[i % first.cut.size()]};
      const Held to{second, second.cut[i % second.cut.size()]};
      const Side source = BuildSide(from.layout, AnyStyle());
      Convert(from, source, to, Expected(first, to, AnyStyle()), source.memory);
    }
  }

  SideStyle AnyStyle() {
    return {Pick(random_, 0, 1) == 0 ? Storing::kFlat : Storing::kEachTensor, Pick(random_, 1, 3)};
  }

  // A side whose places hold, and are spelled as, the elements of `from` that belong there.
  static Side Expected(const TriedLayout& from, const Held& held, const SideStyle& style) {
    std::map<oracle::PartElement, std::int64_t> place_of;
    for (std::size_t t = 0; t < from.elements.size(); ++t) {
      for (std::size_t i = 0; i < from.elements[t].size(); ++i) {
        place_of.emplace(from.elements[t][i], ElementOf(t, static_cast<std::int64_t>(i)));
      }
    }
    Side side = BuildSide(held.layout, style);
    for (std::vector<std::int64_t>& record : side.memory) {
      for (std::int64_t& element : record) {
        if (element < 0) continue;
        const ElementName name = NameOf(element);
        const auto& elements = held.tried.elements[name.tensor];
        const auto found =
            elements.empty() ? place_of.end() : place_of.find(elements[static_cast<std::size_t>(name.index)]);
        if (found == place_of.end()) {
          element = -1;
          continue;
        }
        const std::int64_t before = from.offsets[NameOf(found->second).tensor];
        element = WithOffset(found->second, held.tried.offsets[name.tensor] - before);
      }
    }
    side.layout = from.layout;
    return side;
  }

  // Nothing if it failed.
  std::optional<Memory> Convert(const Held& from, const Side& source, const Held& to, const Side& target,
                                const Memory& memory) {
    if (!report_.failure.empty()) return std::nullopt;
    llvm::Expected<Plan> plan = PlanBetweenLayouts(from, source, to, target);
    if (!plan) {
      report_.failure =
          fmt::format("from `{}` to `{}`: {}", NameOf(from), NameOf(to), TakeFailure(plan.takeError()).message);
      return std::nullopt;
    }
    CarriedOut carried = CarryOut(*plan, source, target, memory);
    ++report_.conversions;
    report_.copied += carried.copied;
    if (carried.problem.empty()) carried.problem = Difference(target, carried.memory);
    if (carried.problem.empty()) return std::move(carried.memory);
    report_.failure = fmt::format("from `{}` to `{}`: {}", NameOf(from), NameOf(to), carried.problem);
    return std::nullopt;
  }

  static llvm::Expected<Plan> PlanBetweenLayouts(const Held& from, const Side& source, const Held& to,
                                                 const Side& target) {
    DiagnosticSink sink;
    const LayoutOfModel first{from.tried.bound, from.tried.stored};
    const LayoutOfModel second{to.tried.bound, to.tried.stored};
    const auto common = FindCommonElements(first, second, sink);
    if (!common) return Fail(ErrorCode::kSpec, "{}", FirstError(sink));
    UCP_ASSIGN_OR_RETURN(const auto offsets, OffsetsBetween(first, second, *common));
    TargetFiles files = target.files;
    UCP_RETURN_IF_ERROR(FillPieces(*common, to.layout, files));
    Side as_stored = source;
    as_stored.layout = from.layout;
    const Inventory inventory = AsInventory(as_stored);
    UCP_ASSIGN_OR_RETURN(const std::vector<LogicalTensor> tensors, JoinTensors(from.layout, inventory));
    return MakePlan({from.layout, inventory, from.tried.layout, tensors, "trial", ReplicaPolicy::kCompare, offsets},
                    std::move(files));
  }

  static std::string NameOf(const Held& held) {
    const std::string& name = held.tried.bound.spec.layout_name;
    return held.layout.mesh.axes.empty() ? name : fmt::format("{} at {}", name, ToString(held.layout.mesh));
  }
  static ElementName NameOf(std::int64_t element) { return ucp::NameOf(element); }

  const CheckedSpec& spec_;
  const TrialOptions& options_;
  Random random_;
  TrialReport report_;
};

}  // namespace

TrialReport TryLayouts(const CheckedSpec& spec, const TrialOptions& options) {
  return LayoutsTrial(spec, options).Run();
}

}  // namespace ucp
