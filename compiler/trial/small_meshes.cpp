#include "compiler/trial/small_meshes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

namespace ucp {
namespace {

constexpr std::int64_t kMostRanks = 8;
constexpr std::int64_t kMostOnAnAxis = 4;
constexpr std::int64_t kMostRandomRanks = 64;
constexpr std::int64_t kMostOnARandomAxis = 8;

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The views of the ranks; a spec with one `mesh` may have it in `mesh` alone.
std::vector<MeshDeclaration> ViewsOf(const CheckedSpec& spec) {
  if (spec.meshes.empty() && spec.mesh) return {*spec.mesh};
  return spec.meshes;
}

void AddCuts(const Formula& formula, std::vector<std::string>& axes) {
  for (const Formula* cut : CutsOf(formula)) axes.insert(axes.end(), cut->axes.begin(), cut->axes.end());
}

// The axes that a tensor can feel, in the order of the views.
std::vector<std::string> FeltAxes(const CheckedSpec& spec) {
  std::vector<std::string> cutting = {"pp", "tp", "ep", "etp"};
  for (const TensorDeclaration& tensor : spec.tensors) {
    for (const Formula& dim : tensor.dims) AddCuts(dim, cutting);
    for (const Counter& counter : tensor.name.counters) {
      for (const Formula& cut : counter.cut) AddCuts(cut, cutting);
    }
    if (tensor.mean) cutting.insert(cutting.end(), tensor.mean->axes.begin(), tensor.mean->axes.end());
  }
  std::vector<std::string> felt;
  for (const MeshDeclaration& view : ViewsOf(spec)) {
    for (const std::string& axis : view.axes) {
      if (Contains(cutting, axis) && !Contains(felt, axis)) felt.push_back(axis);
    }
  }
  return felt;
}

Mesh AllOnes(const CheckedSpec& spec) {
  Mesh mesh;
  for (const MeshDeclaration& view : ViewsOf(spec)) {
    for (const std::string& axis : view.axes) {
      bool known = std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const Axis& a) { return a.name == axis; });
      if (!known) mesh.axes.push_back({axis, 1});
    }
  }
  return mesh;
}

Axis& AxisOf(Mesh& mesh, const std::string& name) {
  return *std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const Axis& axis) { return axis.name == name; });
}

// Views are of the same ranks: each view that has too few gets them on an axis that nothing feels.
bool MakeViewsEqual(const CheckedSpec& spec, const std::vector<std::string>& felt, Mesh& mesh) {
  std::vector<MeshDeclaration> views = ViewsOf(spec);
  std::vector<std::int64_t> ranks;
  std::int64_t all = 1;
  for (const MeshDeclaration& view : views) {
    ranks.push_back(1);
    for (const std::string& axis : view.axes) ranks.back() *= mesh.Size(axis);
    all = std::lcm(all, ranks.back());
  }
  for (std::size_t v = 0; v < ranks.size(); ++v) {
    if (ranks[v] == all) continue;
    const std::vector<std::string>& axes = views[v].axes;
    auto filler = std::find_if(axes.begin(), axes.end(),
                               [&](const std::string& axis) { return !Contains(felt, axis) && mesh.Size(axis) == 1; });
    if (filler == axes.end()) return false;
    AxisOf(mesh, *filler).size = all / ranks[v];
  }
  return true;
}

std::int64_t Product(const Mesh& mesh) {
  std::int64_t product = 1;
  for (const Axis& axis : mesh.axes) product *= axis.size;
  return product;
}

}  // namespace

std::int64_t Pick(Random& random, std::int64_t first, std::int64_t last) {
  return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last - first + 1));
}

std::vector<Mesh> SmallMeshes(const CheckedSpec& spec) {
  std::vector<std::string> felt = FeltAxes(spec);
  std::vector<Mesh> meshes = {AllOnes(spec)};
  for (const std::string& name : felt) {
    std::vector<Mesh> more;
    for (const Mesh& mesh : meshes) {
      for (std::int64_t size = 1; size <= kMostOnAnAxis && Product(mesh) * size <= kMostRanks; ++size) {
        more.push_back(mesh);
        AxisOf(more.back(), name).size = size;
      }
    }
    meshes = std::move(more);
  }
  std::stable_sort(meshes.begin(), meshes.end(), [](const Mesh& a, const Mesh& b) { return Product(a) < Product(b); });
  std::erase_if(meshes, [&](Mesh& mesh) { return !MakeViewsEqual(spec, felt, mesh); });
  return meshes;
}

Mesh RandomMesh(const CheckedSpec& spec, Random& random) {
  std::vector<std::string> felt = FeltAxes(spec);
  Mesh mesh = AllOnes(spec);
  do {
    for (const std::string& name : felt) AxisOf(mesh, name).size = Pick(random, 1, kMostOnARandomAxis);
  } while (Product(mesh) > kMostRandomRanks);
  return MakeViewsEqual(spec, felt, mesh) ? mesh : AllOnes(spec);
}

bool IsOneRank(const Mesh& mesh) { return Product(mesh) == 1; }

}  // namespace ucp
