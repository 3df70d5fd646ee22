// Random increasing selections and their slow form: a list of positions, in which -1 is padding.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/sets/selection.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp {

using Positions = std::vector<std::int64_t>;

inline Selection FromPositions(const Positions& positions) {
  Selection selection;
  for (std::int64_t position : positions) {
    if (position < 0) {
      selection.AppendPadding(1);
    } else {
      selection.Append(position, 1);
    }
  }
  return selection;
}

inline Positions ToPositions(const Selection& selection) {
  Positions positions(static_cast<std::size_t>(selection.local_length()), -1);
  for (const Run& run : selection.runs()) {
    for (std::int64_t i = 0; i < run.length; ++i) {
      positions[static_cast<std::size_t>(run.local_begin + i)] = run.logical_begin + i;
    }
  }
  return positions;
}

// Positions below `length`, sorted, with padding anywhere between them.
inline Positions RandomPositions(oracle::Random& random, std::int64_t length) {
  Positions positions;
  std::int64_t kept = oracle::Pick(random, 0, 4);
  std::int64_t padded = oracle::Pick(random, 0, 3);
  for (std::int64_t position = 0; position < length; ++position) {
    if (oracle::Pick(random, 0, 9) < padded) positions.push_back(-1);
    if (oracle::Pick(random, 0, 4) <= kept) positions.push_back(position);
  }
  return positions;
}

}  // namespace ucp
