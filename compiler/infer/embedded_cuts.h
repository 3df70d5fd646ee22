// The layout that a checkpoint's own metadata describes (layout/embedded_layout.h): the basis of a conversion without a
// spec, and what a spec is compared with.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"

namespace ucp {

struct EmbeddedCuts {
  Layout layout;                         // Of the tensors that the metadata describes.
  std::size_t by_map = 0;                // How many of them by an affine map; the others by patterns.
  std::vector<std::string> undescribed;  // The names of all others, sorted.
};

// `inventory.embedded()` must not be null. A tensor that no pattern names is `undescribed`, and not cut along dimension
// 0 as DeepSpeed's converter does without a word. Fails where the metadata contradicts itself or the shapes, where it
// says that it cannot describe a tensor, and where it is not understood.
llvm::Expected<EmbeddedCuts> ReadEmbeddedCuts(const Inventory& inventory);

}  // namespace ucp
