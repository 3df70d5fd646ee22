// Where a bound layout of a model stores the elements of its parts: each tensor in pieces, and each piece as one place
// or one row of places for each factor of its part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/bind/values/bound_spec.h"
#include "compiler/diagnostics/diagnostics.h"

namespace ucp {

// A factor of a part, in one piece. Either the name of the tensor counts it, and the piece has one place of it; or it
// is a loop in a dimension of the tensor.
struct PlacedFactor {
  std::int64_t length = 1;
  std::optional<std::int64_t> counted;  // The place, if the name counts it.
  std::size_t dim = 0;                  // Of the tensor; and the distance of neighbours there.
  std::int64_t stride = 0;
};

struct StoredPiece {
  std::size_t part = 0;               // In the model.
  std::size_t tensor = 0;             // In BoundSpec::tensors.
  SourceRange range;                  // That says so.
  std::vector<std::int64_t> begin;    // Of its first element, by the tensor's dimensions.
  std::vector<PlacedFactor> factors;  // As the part's own shape has them.

  std::int64_t elements() const;
};

struct StoredParts {
  std::vector<StoredPiece> pieces;                // Tensor after tensor.
  std::vector<std::vector<std::int64_t>> shapes;  // By tensor: whole, without padding.
};

// Returns nothing after reporting: a factor that has another length than its part's (part-factors), an element that is
// stored twice (part-twice). `bound` is of a spec with a model.
std::optional<StoredParts> FindStoredParts(const BoundSpec& bound, DiagnosticSink& sink);

}  // namespace ucp
