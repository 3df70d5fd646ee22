// The factors of a dimension are the digits of a position. The positions of a run are an interval, and an interval of
// numbers with digits is taken apart from the slowest digit on: the places of that digit whose faster digits are all in
// the interval, and one place at each end of which some are.
#include "compiler/bind/common_elements.h"

#include <algorithm>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

class Holding {
 public:
  Holding(const CommonElements& elements, const ProductSet& held) : held_(held), elements_(elements) {}

  std::vector<CommonElements> Find() {
    HoldFrom(0);
    return std::move(result_);
  }

 private:
  // The rest of an interval of one dimension, from a digit on: the positions [low, high), counted from that of the
  // place 0 of these digits.
  struct Rest {
    std::size_t dim = 0;
    std::vector<std::size_t> digits;  // Loops of this dimension, the slowest one first.
    std::int64_t low = 0;
    std::int64_t high = 0;
  };

  void HoldFrom(std::size_t dim) {
    if (dim == elements_.target_begin.size()) return result_.push_back(elements_);
    const std::int64_t begin = elements_.target_begin[dim];
    for (const Run& run : held_.dims[dim].runs()) {
      elements_.target_begin[dim] = begin + run.local_begin - run.logical_begin;
      const std::int64_t low = run.logical_begin - begin;
      HoldDigits({dim, DigitsOf(dim), low, low + run.length}, 0);
    }
    elements_.target_begin[dim] = begin;
  }

  std::vector<std::size_t> DigitsOf(std::size_t dim) const {
    std::vector<std::size_t> digits;
    for (std::size_t l = 0; l < elements_.loops.size(); ++l) {
      if (elements_.loops[l].target_dim == dim) digits.push_back(l);
    }
    std::ranges::sort(digits, std::greater(), [&](std::size_t l) { return elements_.loops[l].target_stride; });
    return digits;
  }

  // The largest position of the digits from this one on.
  std::int64_t ReachFrom(const Rest& rest, std::size_t digit) const {
    std::int64_t reach = 0;
    for (; digit < rest.digits.size(); ++digit) {
      const CommonElements::Loop& loop = elements_.loops[rest.digits[digit]];
      reach += (loop.count - 1) * loop.target_stride;
    }
    return reach;
  }

  void HoldDigits(const Rest& rest, std::size_t digit) {
    const std::int64_t reach = ReachFrom(rest, digit);
    if (rest.high <= 0 || rest.low > reach) return;
    if (rest.low <= 0 && reach < rest.high) return HoldFrom(rest.dim + 1);
    const std::int64_t inner = ReachFrom(rest, digit + 1);
    const CommonElements::Loop& loop = elements_.loops[rest.digits[digit]];
    const std::int64_t stride = loop.target_stride;
    const std::int64_t first = CeilDivide(std::max<std::int64_t>(rest.low - inner, 0), stride);
    const std::int64_t last = std::min((rest.high - 1) / stride, loop.count - 1);
    const std::int64_t whole = CeilDivide(std::max<std::int64_t>(rest.low, 0), stride);
    const std::int64_t whole_end =
        rest.high - 1 < inner ? 0 : std::min((rest.high - 1 - inner) / stride + 1, loop.count);
    for (std::int64_t place = first; place <= last;) {
      const bool is_whole = place >= whole && place < whole_end;
      const std::int64_t end = is_whole ? whole_end : place + 1;
      HoldPlaces(rest, digit, place, end);
      place = end;
    }
  }

  // The same where the digit is one of [place, end).
  void HoldPlaces(Rest rest, std::size_t digit, std::int64_t place, std::int64_t end) {
    const std::size_t l = rest.digits[digit];
    const CommonElements before = elements_;
    const CommonElements::Loop loop = elements_.loops[l];
    elements_.loops[l].count = end - place;
    elements_.source_begin[loop.source_dim] += place * loop.source_stride;
    elements_.target_begin[loop.target_dim] += place * loop.target_stride;
    rest.low -= place * loop.target_stride;
    rest.high -= place * loop.target_stride;
    const std::int64_t reach = ReachFrom(rest, digit);
    if (rest.low <= 0 && reach < rest.high) {
      HoldFrom(rest.dim + 1);
    } else {
      HoldDigits(rest, digit + 1);
    }
    elements_ = before;
  }

  const ProductSet& held_;
  CommonElements elements_;  // With the choices so far.
  std::vector<CommonElements> result_;
};

}  // namespace

std::int64_t CommonElements::elements() const {
  std::int64_t elements = 1;
  for (const Loop& loop : loops) elements *= loop.count;
  return elements;
}

CommonElements ElementsOfBoth(const std::string& name, const StoredPiece& source, const StoredPiece& target) {
  CommonElements both{name, source.begin, target.begin, {}};
  for (std::size_t f = 0; f < source.factors.size(); ++f) {
    const PlacedFactor& from = source.factors[f];
    const PlacedFactor& to = target.factors[f];
    if (from.counted && to.counted) continue;
    if (to.counted) both.source_begin[from.dim] += *to.counted * from.stride;
    if (from.counted) both.target_begin[to.dim] += *from.counted * to.stride;
    if (from.counted || to.counted || from.length == 1) continue;
    both.loops.push_back({from.length, from.dim, from.stride, to.dim, to.stride});
  }
  return both;
}

std::vector<CommonElements> HeldElements(const CommonElements& elements, const ProductSet& held) {
  std::vector<std::int64_t> last = elements.target_begin;
  for (const CommonElements::Loop& loop : elements.loops)
    last[loop.target_dim] += (loop.count - 1) * loop.target_stride;
  for (std::size_t d = 0; d < last.size(); ++d) {  // Most ranks hold nothing of them.
    const bool holds_some = std::ranges::any_of(held.dims[d].runs(), [&](const Run& run) {
      return run.logical_begin <= last[d] && elements.target_begin[d] < run.logical_begin + run.length;
    });
    if (!holds_some) return {};
  }
  return Holding(elements, held).Find();
}

}  // namespace ucp
