// V3: every geometry is what its two sets have in common, and none is missing.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/sets/box_index.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/shards_of_tensors.h"
#include "compiler/verifier/unsound.h"
#include "compiler/verifier/verify_steps.h"

namespace ucp {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 60;

// Whether local places [local, local + length) of `dim` hold the logical positions [logical, logical + length).
bool Holds(const Selection& dim, std::int64_t local, std::int64_t logical, std::int64_t length) {
  auto run = std::partition_point(dim.runs().begin(), dim.runs().end(),
                                  [&](const Run& r) { return r.local_begin + r.length <= local; });
  if (run == dim.runs().end() || run->local_begin > local) return false;
  return logical - run->logical_begin == local - run->local_begin && local + length <= run->local_begin + run->length;
}

std::int64_t CommonPositions(const Selection& a, const Selection& b) {
  std::int64_t common = 0;
  auto i = a.runs().begin();
  auto j = b.runs().begin();
  while (i != a.runs().end() && j != b.runs().end()) {
    std::int64_t i_end = i->logical_begin + i->length;
    std::int64_t j_end = j->logical_begin + j->length;
    common += std::max<std::int64_t>(0, std::min(i_end, j_end) - std::max(i->logical_begin, j->logical_begin));
    if (i_end < j_end) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

// V3 for one dimension: every block pairs equal positions, blocks follow each other, and none is missing.
bool DimensionIsRight(const std::vector<Progression>& dim, const Selection& source, const Selection& target) {
  // Each block is from another pair of runs; so a hostile count does not keep the loop below busy.
  auto most_blocks = static_cast<std::int64_t>(source.runs().size() + target.runs().size());
  std::int64_t behind = 0;
  std::int64_t positions = 0;
  for (const Progression& p : dim) {
    bool sane = p.length > 0 && p.count > 0 && p.count <= most_blocks;
    for (std::int64_t value : {p.source_begin, p.target_begin, p.logical_begin, p.length, p.source_stride,
                               p.target_stride, p.logical_stride}) {
      sane = sane && value >= 0 && value < kLimit;
    }
    // Strides that no block follows are multiplied by others all the same.
    bool no_idle_strides = p.count > 1 || (p.source_stride == 0 && p.target_stride == 0 && p.logical_stride == 0);
    if (!sane || !no_idle_strides) return false;
    std::int64_t s = p.source_begin;
    std::int64_t t = p.target_begin;
    std::int64_t l = p.logical_begin;
    for (std::int64_t block = 0; block < p.count; ++block) {
      if (l < behind || !Holds(source, s, l, p.length) || !Holds(target, t, l, p.length)) return false;
      behind = l + p.length;
      s += p.source_stride;
      t += p.target_stride;
      l += p.logical_stride;
    }
    positions += p.elements();
  }
  return positions == CommonPositions(source, target);
}

bool HaveCommon(const ProductSet& a, const ProductSet& b) {
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (CommonPositions(a.dims[d], b.dims[d]) == 0) return false;
  }
  return true;
}

class Completeness {
 public:
  explicit Completeness(const Plan& plan) : plan_(plan) {
    for (const Geometry& geometry : plan.geometries) known_.emplace(geometry.source, geometry.target);
  }

  // Every pair of a read and a written set of one tensor that have elements in common has a geometry.
  llvm::Error Check(TensorId tensor, const std::set<SetId>& sources, const std::set<SetId>& targets) {
    if (targets.size() < kFew) {
      for (SetId source : sources) {
        for (SetId target : targets) UCP_RETURN_IF_ERROR(Check(tensor, source, target));
      }
      return llvm::Error::success();
    }
    BoxIndex index;
    const std::vector<SetId> numbered(targets.begin(), targets.end());
    for (SetId target : numbered) index.Add(BoxAround(plan_.set(target)));
    for (SetId source : sources) {
      for (std::size_t number : index.Meeting(BoxAround(plan_.set(source)))) {
        UCP_RETURN_IF_ERROR(Check(tensor, source, numbered[number]));
      }
    }
    return llvm::Error::success();
  }

 private:
  static constexpr std::size_t kFew = 16;

  llvm::Error Check(TensorId tensor, SetId source, SetId target) {
    if (!known_.emplace(source, target).second || !HaveCommon(plan_.set(source), plan_.set(target))) {
      return llvm::Error::success();
    }
    return Unsound("tensor `{}`: what {} and {} have in common has no geometry", plan_.tensor(tensor).logical.name,
                   ToString(plan_.set(source)), ToString(plan_.set(target)));
  }

  const Plan& plan_;
  std::set<std::pair<SetId, SetId>> known_;
};

llvm::Error VerifyNoneIsMissing(const Plan& plan) {
  Completeness completeness(plan);
  const ShardsOfTensors shards(plan);
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    std::set<SetId> sources;
    for (const PlanRead& read : shards.ReadsOf(TensorId(t))) {
      if (read.role != ReadRole::kUnused) sources.insert(read.set);
    }
    std::set<SetId> targets;
    for (std::uint32_t write : shards.WritesOf(TensorId(t))) {
      for (const WrittenPiece& piece : plan.writes[write].pieces) {
        if (piece.tensor == TensorId(t)) targets.insert(piece.set);
      }
    }
    UCP_RETURN_IF_ERROR(completeness.Check(TensorId(t), sources, targets));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error VerifyGeometries(const Plan& plan) {
  for (std::size_t g = 0; g < plan.geometries.size(); ++g) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const Geometry& geometry = plan.geometries[g];
    if (geometry.source.index() >= plan.sets.size() || geometry.target.index() >= plan.sets.size()) {
      return Unsound("geometry {} names product sets {} and {}", g, geometry.source, geometry.target);
    }
    const ProductSet& source = plan.set(geometry.source);
    const ProductSet& target = plan.set(geometry.target);
    bool ranks_agree = geometry.dims.size() == source.dims.size() && geometry.dims.size() == target.dims.size();
    if (!ranks_agree) return Unsound("geometry {} has {} dimensions", g, geometry.dims.size());
    for (std::size_t d = 0; d < geometry.dims.size(); ++d) {
      if (geometry.dims[d].empty()) return Unsound("geometry {} is empty in dimension {}", g, d);
      if (!DimensionIsRight(geometry.dims[d], source.dims[d], target.dims[d])) {
        return Unsound("geometry {} does not pair the positions of {} and {} in dimension {}", g,
                       ToString(source.dims[d]), ToString(target.dims[d]), d);
      }
    }
    if (g > 0 && std::pair(plan.geometries[g - 1].source, plan.geometries[g - 1].target) >=
                     std::pair(geometry.source, geometry.target)) {
      return Unsound("its geometries are not sorted");
    }
  }
  return VerifyNoneIsMissing(plan);
}

}  // namespace ucp
