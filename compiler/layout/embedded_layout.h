// DeepSpeed's own statement in a checkpoint of how its parameters are cut over tensor-parallel ranks: the entry
// `universal_checkpoint_info`, of versions 0.2 to 0.4 and affine maps of version 1 (docs/formats.md). All patterns are
// regular expressions that match at the start of a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layout/affine_map.h"

namespace ucp {

// Parameters that are several parts, one behind the other along one dimension, each cut by itself.
struct SubParameters {
  std::string pattern;
  std::int64_t dimension = 0;                     // Along which they are concatenated and cut.
  std::vector<std::int64_t> sizes;                // Of the parts. Empty: `equal_parts` parts of one size.
  std::int64_t equal_parts = 0;                   // Before version 0.4.
  std::vector<std::vector<std::int64_t>> widths;  // From 0.4: for each part, the width on each rank.
  bool operator==(const SubParameters&) const = default;
};

struct EmbeddedLayout {
  std::string where;  // The file it was read from.
  double version = 0;
  std::vector<std::string> replicated;
  std::vector<std::string> averaged;                    // The mean of all ranks' copies counts.
  std::vector<std::string> row_parallel;                // Cut along dimension 1.
  std::vector<std::string> vocabulary;                  // Cut along dimension 0, and padded behind the vocabulary.
  std::vector<std::string> two_parts;                   // Two equal parts along dimension 0, each cut.
  std::vector<SubParameters> sub_parameters;            // The first that matches counts.
  std::int64_t original_vocabulary = 0;                 // Without padding; 0: not said.
  std::vector<std::pair<std::string, AffineMap>> maps;  // By pattern.
  std::vector<std::pair<std::string, std::string>> unsupported;  // Tensors that no map describes, and why.
};

}  // namespace ucp
