// First every small mesh that fits has its turn as source, half-way and target; then random ones, with new values for
// the dims now and then, until the time is over.
#include "compiler/trial/trial.h"

#include <fmt/format.h>

#include <chrono>

#include "compiler/layout/layout.h"
#include "compiler/support/error.h"
#include "compiler/trial/carry_out.h"
#include "compiler/trial/families.h"
#include "compiler/trial/reach.h"
#include "compiler/trial/side.h"

namespace ucp {
namespace {

constexpr int kTurnsBeforeNewValues = 10;

SideStyle AnyStyle(Random& random) {
  return {Pick(random, 0, 1) == 0 ? Storing::kFlat : Storing::kEachTensor, Pick(random, 1, 3)};
}

class Conversions {
 public:
  Conversions(Random& random, TrialReport& report) : random_(random), report_(report) {}

  void Run(const Layout& from, const Layout& over, const Layout& to) {
    SideStyle found = AnyStyle(random_);
    found.as_found = true;
    Side source = BuildSide(from, found);
    Side half_way = BuildSide(over, AnyStyle(random_));
    Side target = BuildSide(to, AnyStyle(random_));
    std::optional<Memory> there = Convert(source, half_way, source.memory);
    if (there) Convert(half_way, BuildSide(from, AnyStyle(random_)), *there);
    std::optional<Memory> two_hops = there ? Convert(half_way, target, *there) : std::nullopt;
    std::optional<Memory> one_hop = Convert(source, target, source.memory);
    bool differ = two_hops && one_hop && *two_hops != *one_hop;
    if (differ) Fails(source, target, fmt::format("two hops, over {}, are not one", Name(half_way)));
  }

 private:
  // Nothing if it failed, or if the planner does not do that.
  std::optional<Memory> Convert(const Side& source, const Side& target, const Memory& memory) {
    if (!report_.failure.empty()) return std::nullopt;
    llvm::Expected<Plan> plan = PlanBetween(source, target);
    if (!plan) {
      FailureText failure = TakeFailure(plan.takeError());
      if (!target.partly_copied.empty()) {
        ++report_.refused[fmt::format("ranks of the target share a part of tensor `{}`, and this is not written yet",
                                      target.partly_copied)];
      } else if (failure.code == ErrorCode::kUnsupported) {
        ++report_.refused[failure.message];
      } else {
        Fails(source, target, failure.message);
      }
      return std::nullopt;
    }
    CarriedOut carried = CarryOut(*plan, source, target, memory);
    ++report_.conversions;
    report_.copied += carried.copied;
    if (carried.problem.empty()) carried.problem = Difference(target, carried.memory);
    if (carried.problem.empty()) return std::move(carried.memory);
    Fails(source, target, carried.problem);
    return std::nullopt;
  }

  void Fails(const Side& source, const Side& target, const std::string& what) {
    report_.failure = fmt::format("from {} to {}: {}", Name(source), Name(target), what);
  }

  static std::string Name(const Side& side) {
    std::string name = ToString(side.layout.mesh);
    return name.empty() ? "one rank" : name;
  }

  Random& random_;
  TrialReport& report_;
};

class Trial {
 public:
  Trial(const CheckedSpec& spec, const TrialOptions& options) : spec_(spec), options_(options), random_(options.seed) {}

  TrialReport Run() {
    families_ = FamiliesOf(spec_, options_.set, random_, report_.failure);
    if (families_.empty()) return std::move(report_);
    for (; report_.families < families_.size() && report_.failure.empty(); ++report_.families) {
      if (!Choose(families_[report_.families])) return std::move(report_);
      if (report_.families == 0) DescribeModel();
      CheckThatSomethingFits();
      TrySmallMeshes();
    }
    SeekUnreached();
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    for (int turn = 1; report_.failure.empty() && std::chrono::steady_clock::now() < end; ++turn) {
      auto family = static_cast<std::size_t>(Pick(random_, 0, std::ssize(families_) - 1));
      if (turn % kTurnsBeforeNewValues == 0 && !Choose(families_[family])) break;
      TryRandomMeshes();
    }
    report_.unreached = Unreached(spec_, reached_);
    return std::move(report_);
  }

 private:
  bool Choose(const Settings& family) {
    std::string why;
    std::optional<SmallModel> model = ChooseSmallValues(spec_, family, reached_, random_, why);
    if (!model) {
      report_.values.push_back(family);
      report_.failure = fmt::format("no small values make a model of this spec: {}", why);
      return false;
    }
    model_ = std::move(*model);
    report_.values.push_back(model_.set);
    reached_.Add(model_.bound);
    return true;
  }

  // Items that no family's values reached yet are sought again in each, as long as some is found.
  void SeekUnreached() {
    for (bool finds = true; finds && report_.failure.empty();) {
      finds = false;
      for (const Settings& family : families_) {
        if (!report_.failure.empty() || Unreached(spec_, reached_).empty()) return;
        const std::size_t before = reached_.size();
        if (!Choose(family)) return;
        if (reached_.size() == before) continue;
        finds = true;
        TrySmallMeshes();
      }
    }
  }

  void DescribeModel() {
    report_.tensors = model_.bound.tensors.size();
    report_.elements = model_.elements;
    report_.meshes = model_.meshes;
    report_.misfits = model_.misfits;
  }

  void CheckThatSomethingFits() {
    for (const Mesh& mesh : model_.meshes) {
      if (!IsOneRank(mesh)) return;
    }
    if (model_.misfits.empty()) return;  // There is no axis.
    const SmallModel::Misfit& first = model_.misfits.front();
    report_.failure =
        fmt::format("no mesh of more than one rank fits; {} does not: {}", ToString(first.mesh), first.why);
  }

  void TrySmallMeshes() {
    std::size_t count = model_.meshes.size();
    for (std::size_t i = 0; i < count && report_.failure.empty(); ++i) {
      Try(model_.meshes[i], model_.meshes[(i + 1) % count], model_.meshes[(i + count / 2) % count]);
    }
    if (report_.refused.empty()) return;
    for (std::size_t i = 1; i < count && report_.failure.empty(); ++i) {  // One rank can always be written.
      Try(model_.meshes[i], model_.meshes[0], model_.meshes[0]);
    }
  }

  void TryRandomMeshes() { Try(AnyMesh(), AnyMesh(), AnyMesh()); }

  // A random one, if it fits, or a small one that is known to.
  Mesh AnyMesh() {
    std::string why;
    Mesh mesh = RandomMesh(spec_, random_);
    bool fits = FitToMesh(model_.bound, mesh, why).has_value();
    ++(fits ? report_.random_meshes : report_.random_misfits);
    if (fits) return mesh;
    return model_.meshes[static_cast<std::size_t>(Pick(random_, 0, std::ssize(model_.meshes) - 1))];
  }

  void Try(const Mesh& from, const Mesh& over, const Mesh& to) {
    std::optional<Layout> layouts[3] = {Lower(from), Lower(over), Lower(to)};
    if (!report_.failure.empty()) return;
    TryConversions(*layouts[0], *layouts[1], *layouts[2], random_, report_);
  }

  std::optional<Layout> Lower(const Mesh& mesh) {
    std::string why;
    std::optional<Layout> layout = FitToMesh(model_.bound, mesh, why);
    if (layout) why = llvm::toString(VerifyLayout(*layout));
    if (!why.empty()) report_.failure = fmt::format("on {}: {}", ToString(mesh), why);
    return layout;
  }

  const CheckedSpec& spec_;
  const TrialOptions& options_;
  Random random_;
  std::vector<Settings> families_;
  SmallModel model_;
  Reached reached_;
  TrialReport report_;
};

}  // namespace

void TryConversions(const Layout& from, const Layout& over, const Layout& to, Random& random, TrialReport& report) {
  Conversions(random, report).Run(from, over, to);
}

TrialReport TrySpec(const CheckedSpec& spec, const TrialOptions& options) { return Trial(spec, options).Run(); }

}  // namespace ucp
