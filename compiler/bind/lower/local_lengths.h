// How many places each coordinate holds of one dimension. Most cuts give every coordinate equally many, and then that
// is one number; otherwise it is a table over those axes only that make a difference.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/layout/mesh.h"

namespace ucp {

struct LocalLengths {
  std::vector<Axis> axes;  // None: all coordinates hold equally many.
  std::vector<std::int64_t> lengths =
      {};  // Padding included. One for each coordinate of `axes`, the last axis fastest.

  static LocalLengths Same(std::int64_t length) { return {{}, {length}}; }

  bool AllSame() const { return axes.empty(); }

  // Returns nothing if the coordinate is outside of the mesh.
  std::optional<std::int64_t> At(const Coordinate& coordinate) const;

  // Returns the coordinate of the place `entry` of `lengths`.
  Coordinate CoordinateOf(std::size_t entry) const;
};

// A table has at most so many entries, which is more ranks than any job has.
inline constexpr std::int64_t kMaxLocalLengths = std::int64_t{1} << 17;

// The result of `combine` on both at each coordinate; nothing if it says nothing, or the table would be too large.
using CombineLengths = llvm::function_ref<std::optional<std::int64_t>(std::int64_t, std::int64_t)>;
std::optional<LocalLengths> Combine(const LocalLengths& a, const LocalLengths& b, CombineLengths combine);

// The part of `inner` that is left when it is cut over `axes`, none of which it has: `width` says how many of its
// places the coordinate `index` (over all of `axes`) gets. Nothing as for Combine.
using WidthAt = llvm::function_ref<std::optional<std::int64_t>(std::int64_t places, std::int64_t index)>;
std::optional<LocalLengths> CutLengths(const LocalLengths& inner, const std::vector<Axis>& axes, WidthAt width);

}  // namespace ucp
