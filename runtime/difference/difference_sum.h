// How two runs of elements differ, added up while they go by (docs/commands/ucprun-diff.md).
//
// Elements of one dtype are the same if their bits are. Elements of different dtypes are the same if they are the same
// number in float64, or both not a number. Of those that differ, the norm and the largest difference are of those whose
// difference is a finite number; the others are counted by themselves.
//
// Where the elements of one side should be those of the other, cast to its dtype, it is counted besides how many are
// not: the bits must be those that PyTorch's cast gives, and any NaN is the cast of any NaN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "compiler/layout/dtype.h"
#include "runtime/difference/pair_states.h"

namespace ucp {

// One element on both sides.
struct ElementPair {
  std::int64_t place = -1;  // In the row-major whole tensor; -1: none.
  std::array<std::byte, 16> a = {};
  std::array<std::byte, 16> b = {};
};

struct Difference {
  std::uint64_t elements = 0;    // That differ.
  std::uint64_t not_finite = 0;  // Of them, those whose difference is not a finite number.
  double squares = 0;            // Of the finite differences.
  double squares_of_a = 0;       // Of all finite elements of the first.
  double largest = 0;
  ElementPair first;
  ElementPair at_largest;  // The first of several; none if all finite differences are 0.
  // Without a declared cast, none.
  std::uint64_t not_cast = 0;
  ElementPair first_not_cast;

  // Adds the sum of the elements behind.
  void Append(const Difference& next);
};

// Sums are kept in eight lanes, by place, and so do not depend on how the elements are cut into chunks: only on where
// the first one is.
class DifferenceSum {
 public:
  // IsArithmetic() must hold for both if there is a cast.
  DifferenceSum(DType a, DType b, DeclaredCast cast = DeclaredCast::kNone);

  // Chunks follow one another, and all but the last hold a multiple of kBlockElements. `place` is that of the first.
  void Add(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place);

  Difference Get() const;

  static constexpr std::int64_t kBlockElements = 256;

 private:
  static constexpr std::size_t kLanes = 8;
  using Lanes = std::array<double, kLanes>;

  void AddBlock(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place);
  void CheckCast(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place);
  void AddNumbers(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place);
  bool AreSame(const std::byte* a, const std::byte* b, double number_a, double number_b) const;
  ElementPair PairAt(const std::byte* a, const std::byte* b, std::int64_t place) const;

  const DType dtype_a_;
  const DType dtype_b_;
  const DeclaredCast cast_;
  const std::int64_t bytes_a_;
  const std::int64_t bytes_b_;
  const bool has_numbers_;
  Lanes squares_ = {};
  Lanes squares_of_a_ = {};
  Difference found_;  // But for what is in the lanes.
};

}  // namespace ucp
