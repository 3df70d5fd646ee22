// The number of places that each coordinate holds of one dimension. Most cuts give every coordinate equally many, so
// that it is one number; otherwise it is a table over the axes that make a difference.
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

// Applies `combine` to both lengths at each coordinate. Returns nothing if `combine` does, or if the table would be too
// large.
using CombineLengths = llvm::function_ref<std::optional<std::int64_t>(std::int64_t, std::int64_t)>;
std::optional<LocalLengths> Combine(const LocalLengths& a, const LocalLengths& b, CombineLengths combine);

// Returns the lengths of `inner` after a cut over `axes`, none of which it has: `width` says how many of its places the
// coordinate `index` (over all of `axes`) gets. Returns nothing as Combine does.
using WidthAt = llvm::function_ref<std::optional<std::int64_t>(std::int64_t places, std::int64_t index)>;
std::optional<LocalLengths> CutLengths(const LocalLengths& inner, const std::vector<Axis>& axes, WidthAt width);

}  // namespace ucp
