// A selection: which logical positions of one dimension a rank holds, and in which order (docs/algebra.md).
//
// The position in the list is the local index. Padding places have a local index and no logical one. No position is
// there twice. A selection is a list of runs in local order, and nearly always increasing: the logical positions grow
// with the local index. Only an explicit `list` can make another one. Geometry is for increasing selections alone; any
// other is taken apart first, into increasing pieces.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ucp {

// `length` consecutive positions: local_begin + i holds logical_begin + i.
struct Run {
  std::int64_t local_begin = 0;
  std::int64_t logical_begin = 0;
  std::int64_t length = 0;
  bool operator==(const Run&) const = default;
};

class Selection {
 public:
  // Selects all of [0, length), in place.
  static Selection Whole(std::int64_t length);

  // Appends `length` positions from `logical_begin` on, or `length` padding places. Joins neighbours that continue.
  void Append(std::int64_t logical_begin, std::int64_t length);
  void AppendPadding(std::int64_t length);

  // Returns the runs, sorted by local_begin, and if the selection is increasing by logical_begin too; no run is empty.
  const std::vector<Run>& runs() const { return runs_; }
  std::int64_t local_length() const { return local_length_; }  // Padding included.
  std::int64_t real_length() const { return real_length_; }    // Padding excluded.
  bool IsWhole(std::int64_t logical_length) const;
  bool IsIncreasing() const;

  // Returns the local places [begin, end) of this selection, renumbered from 0.
  Selection Slice(std::int64_t begin, std::int64_t end) const;

  // Returns the same local places, of which those that `other` does not hold (or does hold) have become padding. Both
  // must be increasing.
  Selection KeepCommon(const Selection& other) const;
  Selection KeepRest(const Selection& other) const;

  bool operator==(const Selection&) const = default;

 private:
  std::vector<Run> runs_;
  std::int64_t local_length_ = 0;
  std::int64_t real_length_ = 0;
};

// Returns the same local places several times over, each time with some of the positions and padding for the others, so
// that each piece is increasing and each position is in one of them. As few pieces as there can be; one, itself, if the
// selection is increasing.
std::vector<Selection> IncreasingPieces(const Selection& selection);

// "0..4 8..12 pad 2": logical ranges in local order.
std::string ToString(const Selection& selection);

// The common positions of two ranks on one dimension: `count` blocks of `length` positions; block b begins at `*_begin
// + b * *_stride` in the source's local index, the target's local index and the logical index. Blocks are sorted and
// disjoint; a single block has stride 0.
struct Progression {
  std::int64_t source_begin = 0;
  std::int64_t target_begin = 0;
  std::int64_t logical_begin = 0;
  std::int64_t length = 0;
  std::int64_t count = 1;
  std::int64_t source_stride = 0;
  std::int64_t target_stride = 0;
  std::int64_t logical_stride = 0;
  bool operator==(const Progression&) const = default;

  std::int64_t elements() const { return length * count; }
};

// Returns the positions that both hold, by one sweep over both run lists, gathered into progressions that are sorted by
// where they begin and whose logical ranges do not interleave. Both must be increasing.
std::vector<Progression> Intersect(const Selection& source, const Selection& target);

// Returns the part of a sorted progression list that lies within the logical positions [begin, end): whole blocks stay
// a progression, a block that is cut becomes one of its own.
llvm::SmallVector<Progression, 2> Clip(llvm::ArrayRef<Progression> progressions, std::int64_t begin, std::int64_t end);

}  // namespace ucp
