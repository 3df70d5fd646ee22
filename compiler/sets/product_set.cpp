#include "compiler/sets/product_set.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

#include "compiler/support/check.h"

namespace ucp {

std::strong_ordering operator<=>(const LexBound& a, const LexBound& b) {
  if (a.place != b.place)
    return a.place == LexBound::Place::kEnd ? std::strong_ordering::greater : std::strong_ordering::less;
  return std::lexicographical_compare_three_way(a.index.begin(), a.index.end(), b.index.begin(), b.index.end());
}

Index IndexOf(std::int64_t element, const std::vector<std::int64_t>& shape) {
  Index index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return index;
}

ProductSet ProductSet::Whole(const std::vector<std::int64_t>& shape) {
  ProductSet set;
  for (std::int64_t length : shape) set.dims.push_back(Selection::Whole(length));
  return set;
}

std::vector<std::int64_t> ProductSet::LocalShape() const {
  std::vector<std::int64_t> shape;
  shape.reserve(dims.size());
  for (const Selection& dim : dims) shape.push_back(dim.local_length());
  return shape;
}

std::int64_t ProductSet::local_elements() const {
  std::int64_t elements = 1;
  for (const Selection& dim : dims) elements *= dim.local_length();
  return elements;
}

std::int64_t ProductSet::real_elements() const {
  std::int64_t elements = 1;
  for (const Selection& dim : dims) elements *= dim.real_length();
  return elements;
}

bool ProductSet::IsIncreasing() const {
  return std::all_of(dims.begin(), dims.end(), [](const Selection& dim) { return dim.IsIncreasing(); });
}

std::vector<ProductSet> IncreasingPieces(const ProductSet& set) {
  if (set.IsIncreasing()) return {set};
  std::vector<ProductSet> pieces = {{}};
  for (const Selection& dim : set.dims) {
    std::vector<ProductSet> longer;
    for (const Selection& of_dim : IncreasingPieces(dim)) {
      for (const ProductSet& piece : pieces) {
        longer.push_back(piece);
        longer.back().dims.push_back(of_dim);
      }
    }
    pieces = std::move(longer);
  }
  return pieces;
}

namespace {

// The run that holds local place `local`, or the first run behind it.
std::vector<Run>::const_iterator RunAtOrBehindLocal(const Selection& dim, std::int64_t local) {
  return std::partition_point(dim.runs().begin(), dim.runs().end(),
                              [&](const Run& run) { return run.local_begin + run.length <= local; });
}

std::vector<Run>::const_iterator RunAtOrBehindLogical(const Selection& dim, std::int64_t logical) {
  return std::partition_point(dim.runs().begin(), dim.runs().end(),
                              [&](const Run& run) { return run.logical_begin + run.length <= logical; });
}

// The answer of one dimension to the question for its first member at or behind a place: the member (as local place and
// logical position), whether it is the place itself, or that there is none.
struct Member {
  bool found = false;
  bool exact = false;
  std::int64_t local = 0;
  std::int64_t logical = 0;
};

using Members = llvm::SmallVector<Member, 6>;  // One for each dimension.

Member FirstFromLocal(const Selection& dim, std::int64_t local) {
  auto run = RunAtOrBehindLocal(dim, local);
  if (run == dim.runs().end()) return {};
  std::int64_t at = std::max(local, run->local_begin);
  return {true, at == local, at, run->logical_begin + (at - run->local_begin)};
}

Member FirstFromLogical(const Selection& dim, std::int64_t logical) {
  auto run = RunAtOrBehindLogical(dim, logical);
  if (run == dim.runs().end()) return {};
  std::int64_t at = std::max(logical, run->logical_begin);
  return {true, at == logical, run->local_begin + (at - run->logical_begin), at};
}

// The first member of the product set that is lexicographically at or behind the index whose coordinates `first(dim,
// d)` asks about. Walk the dimensions from the left while the set holds the coordinate exactly. Where it does not, take
// the next member there and the first members in all dimensions to the right; where there is no next member, carry: go
// left to the nearest dimension that has a member strictly behind its coordinate.
template <typename FirstMember, typename NextMember>
bool FirstAtOrBehind(const ProductSet& set, FirstMember first, NextMember next, Members& members) {
  if (set.real_elements() == 0) return false;
  std::size_t rank = set.dims.size();
  members.assign(rank, {});
  std::size_t d = 0;
  while (d < rank) {
    members[d] = first(d);
    if (!members[d].found || !members[d].exact) break;
    ++d;
  }
  if (d == rank) return true;
  while (!members[d].found) {
    if (d == 0) return false;
    --d;
    members[d] = next(d);
  }
  for (std::size_t right = d + 1; right < rank; ++right) members[right] = FirstFromLocal(set.dims[right], 0);
  return true;
}

}  // namespace

LexBound LogicalBound(const ProductSet& set, std::int64_t flat) {
  UCP_CHECK(flat >= 0, "a local place cannot be {}", flat);
  if (flat >= set.local_elements()) return LexBound::End();
  llvm::SmallVector<std::int64_t, 6> place(set.dims.size());
  for (std::size_t d = set.dims.size(); d-- > 0;) {
    place[d] = flat % set.dims[d].local_length();
    flat /= set.dims[d].local_length();
  }
  Members members;
  bool found = FirstAtOrBehind(
      set, [&](std::size_t d) { return FirstFromLocal(set.dims[d], place[d]); },
      [&](std::size_t d) { return FirstFromLocal(set.dims[d], place[d] + 1); }, members);
  if (!found) return LexBound::End();
  LexBound bound;
  for (const Member& member : members) bound.index.push_back(member.logical);
  return bound;
}

std::int64_t LocalPlace(const ProductSet& set, const LexBound& bound) {
  if (bound.place == LexBound::Place::kEnd) return set.local_elements();
  UCP_CHECK(bound.index.size() == set.dims.size(), "an index of {} dimensions in a set of {}", bound.index.size(),
            set.dims.size());
  Members members;
  bool found = FirstAtOrBehind(
      set, [&](std::size_t d) { return FirstFromLogical(set.dims[d], bound.index[d]); },
      [&](std::size_t d) { return FirstFromLogical(set.dims[d], bound.index[d] + 1); }, members);
  if (!found) return set.local_elements();
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < members.size(); ++d) flat = flat * set.dims[d].local_length() + members[d].local;
  return flat;
}

std::string ToString(const ProductSet& set) {
  std::string text;
  for (const Selection& dim : set.dims) text += fmt::format("{}{}", text.empty() ? "" : ", ", ToString(dim));
  return "[" + text + "]";
}

}  // namespace ucp
