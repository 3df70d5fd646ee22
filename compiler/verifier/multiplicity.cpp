// One sweep over the first dimension: between two neighbouring ends of runs all positions are in the same sets, so the
// answer for them is that of the remaining dimensions for those sets alone, which is found in the same way. Stretches
// with the same sets ask the same question, and it is answered once.
//
//     set a  [======]                      a | a b | b | c
//     set b      [======]
//     set c              [====]
#include "compiler/verifier/multiplicity.h"

#include <algorithm>
#include <map>

namespace ucp {
namespace {

constexpr std::int64_t kMostWork = 200'000'000;  // Sets looked at, in all stretches together.

using Members = std::vector<std::uint32_t>;  // Indices of sets, sorted.

// Where a set begins or ends to hold positions of one dimension.
struct End {
  std::int64_t position = 0;
  std::uint32_t member = 0;
  bool begins = false;
};

class Counter {
 public:
  Counter(const std::vector<ProductSet>& sets, llvm::ArrayRef<std::int64_t> shape)
      : sets_(sets), shape_(shape), known_(shape.size()) {}

  std::optional<Multiplicity> Count(std::size_t dim, const Members& members) {
    if (dim == shape_.size() || members.empty()) return Multiplicity{std::ssize(members), std::ssize(members)};
    if (auto found = known_[dim].find(members); found != known_[dim].end()) return found->second;
    std::optional<Multiplicity> result = Sweep(dim, members);
    if (result) known_[dim].emplace(members, *result);
    return result;
  }

 private:
  std::optional<Multiplicity> Sweep(std::size_t dim, const Members& members) {
    std::optional<Multiplicity> result;
    Members active;
    std::int64_t at = 0;
    auto add_stretch = [&](std::int64_t end) {
      if (at == end) return true;
      work_ += std::ssize(active) + 1;
      std::optional<Multiplicity> stretch = work_ > kMostWork ? std::nullopt : Count(dim + 1, active);
      if (!stretch) return false;
      if (!result) result = stretch;
      result = Multiplicity{std::min(result->least, stretch->least), std::max(result->most, stretch->most)};
      at = end;
      return true;
    };
    for (const End& end : EndsOf(dim, members)) {
      if (!add_stretch(end.position)) return std::nullopt;
      auto place = std::lower_bound(active.begin(), active.end(), end.member);
      if (end.begins) {
        active.insert(place, end.member);
      } else {
        active.erase(place);
      }
    }
    return add_stretch(shape_[dim]) ? result : std::nullopt;
  }

  std::vector<End> EndsOf(std::size_t dim, const Members& members) {
    std::vector<End> ends;
    for (std::uint32_t member : members) {
      for (const Run& run : sets_[member].dims[dim].runs()) {
        ends.push_back({run.logical_begin, member, true});
        ends.push_back({run.logical_begin + run.length, member, false});
      }
    }
    work_ += std::ssize(ends);
    // Neighbouring runs of one set end before they begin.
    std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
      return a.position != b.position ? a.position < b.position : a.begins < b.begins;
    });
    return ends;
  }

  const std::vector<ProductSet>& sets_;
  const llvm::ArrayRef<std::int64_t> shape_;
  std::vector<std::map<Members, Multiplicity>> known_;  // By dimension.
  std::int64_t work_ = 0;
};

}  // namespace

std::optional<Multiplicity> MultiplicityOf(const std::vector<ProductSet>& sets, llvm::ArrayRef<std::int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Multiplicity{};
  Members all;
  for (std::size_t i = 0; i < sets.size(); ++i) all.push_back(static_cast<std::uint32_t>(i));
  return Counter(sets, shape).Count(0, all);
}

namespace {

// The local places of the real positions, as a selection of places.
Selection RealPlaces(const Selection& dim) {
  Selection places;
  for (const Run& run : dim.runs()) places.Append(run.local_begin, run.length);
  return places;
}

}  // namespace

bool ShareOutPlaces(const std::vector<ProductSet>& sets) {
  std::vector<ProductSet> places;
  for (const ProductSet& set : sets) {
    places.emplace_back();
    for (const Selection& dim : set.dims) places.back().dims.push_back(RealPlaces(dim));
  }
  std::optional<Multiplicity> multiplicity = MultiplicityOf(places, sets.front().LocalShape());
  return multiplicity && multiplicity->most <= 1;
}

}  // namespace ucp
