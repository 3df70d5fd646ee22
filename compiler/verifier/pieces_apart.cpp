// A piece's elements are a grid: a begin, and for each dimension the multiples of its stride that are real. Grids whose
// extents do not meet lie apart. Those that lie among one another are cut into blocks of the largest stride S among
// them: a grid with this stride is its places in that dimension, which are numbers of blocks, and within each of them
// one smaller grid. Between two neighbouring ends of runs the same grids are in each block, so it is enough to look at
// one block, where the question is the same again.
//
//     q [2, 3] strides [5, 1] from 0    q q q k v|q q q k v      S = 5: in both blocks q from 0 to 3, k at 3, v at 4
//     k [2]    strides [5]    from 3
//     v [2]    strides [5]    from 4
//
// A grid with smaller strides that goes on through several blocks must have a stride that divides S, and is cut at the
// blocks' ends.
#include "compiler/verifier/pieces_apart.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/support/checked_math.h"
#include "compiler/verifier/step_geometry.h"
#include "compiler/verifier/unsound.h"

namespace ucp {
namespace {

constexpr std::int64_t kElementLimit = std::int64_t{1} << 60;
constexpr std::int64_t kMostPieceWork = 20'000'000;  // Intervals and grids looked at.
constexpr int kMostDepth = 100;                      // Different strides of grids that lie among one another.

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The places of one dimension, in order; `stride` apart.
struct Digit {
  std::int64_t stride = 0;
  std::vector<Interval> places;  // Not empty.
};

// Not empty. The first place of every dimension is 0, and the last one is not.
struct Grid {
  std::int64_t begin = 0;
  std::vector<Digit> digits;  // The largest stride first.

  std::int64_t last() const {
    std::int64_t last = begin;
    for (const Digit& digit : digits) last += (digit.places.back().end - 1) * digit.stride;
    return last;
  }
  std::int64_t stride() const { return digits.empty() ? 0 : digits.front().stride; }

  // Adds an inner dimension, whose places may begin anywhere.
  void Add(Digit digit) {
    const std::int64_t first = digit.places.front().begin;
    begin += first * digit.stride;
    for (Interval& interval : digit.places) interval = {interval.begin - first, interval.end - first};
    if (digit.places.back().end > 1) digits.push_back(std::move(digit));
  }
};

std::optional<Grid> GridOf(const ProductSet& set, const WrittenPiece& piece) {
  if (set.real_elements() == 0) return std::nullopt;
  const std::vector<std::int64_t> strides = Strides(set, piece.strides);
  std::vector<Digit> digits;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    digits.push_back({strides[d], {}});
    for (const Run& run : set.dims[d].runs()) {
      std::vector<Interval>& places = digits.back().places;
      if (!places.empty() && places.back().end == run.local_begin) {
        places.back().end += run.length;
      } else {
        places.push_back({run.local_begin, run.local_begin + run.length});
      }
    }
  }
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  Grid grid{piece.begin, {}};
  for (Digit& digit : digits) grid.Add(std::move(digit));
  return grid;
}

// A grid in some of the blocks, the same in each.
struct InBlocks {
  std::vector<Interval> blocks;
  Grid grid;  // Within a block.
};

class Search {
 public:
  bool AreApart(std::vector<Grid> grids) {
    if (++depth_ > kMostDepth) return false;
    std::sort(grids.begin(), grids.end(), [](const Grid& a, const Grid& b) { return a.begin < b.begin; });
    for (std::size_t first = 0; first < grids.size();) {
      std::int64_t last = grids[first].last();
      std::size_t end = first + 1;
      for (; end < grids.size() && grids[end].begin <= last; ++end) last = std::max(last, grids[end].last());
      work_ += static_cast<std::int64_t>(end - first);
      if (work_ > kMostPieceWork) return false;
      if (end - first > 1 && !AreApartInBlocks(llvm::ArrayRef(grids).slice(first, end - first))) return false;
      first = end;
    }
    --depth_;
    return true;
  }

 private:
  bool AreApartInBlocks(llvm::ArrayRef<Grid> grids) {
    std::int64_t size = 0;
    for (const Grid& grid : grids) size = std::max(size, grid.stride());
    if (size == 0) return false;  // Two single elements.
    std::vector<InBlocks> parts;
    for (const Grid& grid : grids) {
      if (!CutIntoBlocks(grid, grid.begin - grids.front().begin, size, parts)) return false;
    }
    return AreApartInEach(parts);
  }

  // `begin`: from the first block's on.
  bool CutIntoBlocks(const Grid& grid, std::int64_t begin, std::int64_t size, std::vector<InBlocks>& parts) {
    const std::int64_t block = begin / size;
    Grid inner{begin % size, grid.digits};
    if (inner.last() < size) {
      parts.push_back({{{block, block + 1}}, std::move(inner)});
      return true;
    }
    const Digit outer = inner.digits.front();  // Only a grid without dimensions has none, and that fits a block.
    inner.digits.erase(inner.digits.begin());
    if (outer.stride == size) {
      InBlocks part{outer.places, inner};
      for (Interval& blocks : part.blocks) blocks = {blocks.begin + block, blocks.end + block};
      parts.push_back(std::move(part));
      return inner.last() < size;
    }
    if (size % outer.stride != 0) return false;
    const std::int64_t places = size / outer.stride;  // In a block.
    const std::int64_t first = block * places + inner.begin / outer.stride;
    inner.begin %= outer.stride;
    if (inner.last() >= outer.stride) return false;
    for (const Interval& run : outer.places) {
      AddRun({first + run.begin, first + run.end}, places, Digit{outer.stride, {}}, inner, parts);
    }
    return true;
  }

  // Places of one dimension, of which each block has as many: those of the first block, of whole ones, of the last one.
  void AddRun(Interval run, std::int64_t places, const Digit& digit, const Grid& inner, std::vector<InBlocks>& parts) {
    while (run.begin < run.end) {
      const std::int64_t block = run.begin / places;
      const std::int64_t whole = run.begin % places == 0 ? (run.end - run.begin) / places : 0;
      const Interval blocks = {block, block + std::max<std::int64_t>(whole, 1)};
      const std::int64_t end = whole > 0 ? blocks.end * places : std::min(run.end, (block + 1) * places);
      InBlocks part{{blocks}, {inner.begin, {}}};
      Digit within = digit;
      within.places = {{run.begin % places, whole > 0 ? places : run.begin % places + end - run.begin}};
      part.grid.Add(std::move(within));
      part.grid.digits.insert(part.grid.digits.end(), inner.digits.begin(), inner.digits.end());
      parts.push_back(std::move(part));
      run.begin = end;
      ++work_;
    }
  }

  bool AreApartInEach(const std::vector<InBlocks>& parts) {
    struct BlockEnd {
      std::int64_t block;
      bool begins;
      std::size_t part;
    };
    std::vector<BlockEnd> ends;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const Interval& blocks : parts[p].blocks) {
        ends.push_back({blocks.begin, true, p});
        ends.push_back({blocks.end, false, p});
      }
    }
    std::sort(ends.begin(), ends.end(), [](const BlockEnd& a, const BlockEnd& b) {
      return std::pair(a.block, a.begins) < std::pair(b.block, b.begins);
    });
    std::map<std::vector<std::size_t>, bool> known;
    std::vector<std::size_t> active;
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const auto place = std::lower_bound(active.begin(), active.end(), ends[e].part);
      if (ends[e].begins) {
        active.insert(place, ends[e].part);
      } else {
        active.erase(place);
      }
      work_ += std::ssize(active) + 1;
      if (work_ > kMostPieceWork) return false;
      const bool is_stretch = e + 1 < ends.size() && ends[e + 1].block != ends[e].block;
      if (!is_stretch || active.size() < 2 || !known.try_emplace(active, true).second) continue;
      std::vector<Grid> grids;
      for (std::size_t p : active) grids.push_back(parts[p].grid);
      if (!AreApart(std::move(grids))) return false;
    }
    return true;
  }

  std::int64_t work_ = 0;
  int depth_ = 0;
};

// In the order of their sizes, each is larger than what the smaller ones reach. The distance of the last place.
std::optional<std::int64_t> NestedReach(const ProductSet& set, const std::vector<std::int64_t>& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> smallest_first;  // With the length.
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (set.dims[d].local_length() > 1) smallest_first.emplace_back(strides[d], set.dims[d].local_length());
  }
  std::sort(smallest_first.begin(), smallest_first.end());
  std::int64_t reach = 0;
  if (set.local_elements() == 0) return reach;
  for (const auto& [stride, length] : smallest_first) {
    if (stride <= reach) return std::nullopt;
    const std::optional<std::int64_t> distance = CheckedMultiply(stride, length - 1);
    if (!distance || *distance >= kElementLimit - reach) return std::nullopt;
    reach += *distance;
  }
  return reach;
}

llvm::Error VerifyFusedShape(const FusedTensor& fused) {
  if (fused.shape.size() > kMaxRank) {
    return Unsound("the fused tensor `{}` has {} dimensions", fused.name, fused.shape.size());
  }
  std::int64_t elements = 1;
  for (std::int64_t length : fused.shape) {
    const std::optional<std::int64_t> product = length < 0 ? std::nullopt : CheckedMultiply(elements, length);
    if (!product || *product >= kElementLimit)
      return Unsound("the fused tensor `{}` has a shape that cannot be", fused.name);
    elements = *product;
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error VerifyFusedPieces(const Plan& plan, const PlanWrite& write) {
  const FusedTensor& fused = *write.fused;
  if (fused.name.empty()) return Unsound("a fused tensor has no name");
  UCP_RETURN_IF_ERROR(VerifyFusedShape(fused));
  const auto by_tensor = [](const WrittenPiece& a, const WrittenPiece& b) { return a.tensor < b.tensor; };
  if (!std::is_sorted(write.pieces.begin(), write.pieces.end(), by_tensor)) {
    return Unsound("the pieces of `{}` are not sorted by tensor", fused.name);
  }
  const std::int64_t elements = plan.LocalElements(write);
  for (const WrittenPiece& piece : write.pieces) {
    const ProductSet& set = plan.set(piece.set);
    const std::string& name = plan.tensor(piece.tensor).logical.name;
    bool are_sane = piece.strides.empty() || piece.strides.size() == set.dims.size();
    for (std::int64_t stride : piece.strides) are_sane = are_sane && stride > 0 && stride < kElementLimit;
    const std::optional<std::int64_t> reach = are_sane ? NestedReach(set, Strides(set, piece.strides)) : std::nullopt;
    if (!reach) return Unsound("the piece of `{}` in `{}` has strides that cannot be", name, fused.name);
    // A piece without places may stand behind the last one.
    const std::int64_t end = *reach + (set.local_elements() == 0 ? 0 : 1);
    if (piece.begin >= 0 && piece.begin <= elements && end <= elements - piece.begin) continue;
    return Unsound("the piece of `{}` begins at element {} of `{}`, which has {}, and leaves it", name, piece.begin,
                   fused.name, elements);
  }
  return llvm::Error::success();
}

bool LieApart(const std::vector<ProductSet>& sets, llvm::ArrayRef<WrittenPiece> pieces) {
  std::vector<Grid> grids;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (std::optional<Grid> grid = GridOf(sets[p], pieces[p])) grids.push_back(std::move(*grid));
  }
  return Search().AreApart(std::move(grids));
}

}  // namespace ucp
