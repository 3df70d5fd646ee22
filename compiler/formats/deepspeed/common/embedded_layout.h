// Reads `universal_checkpoint_info` (compiler/layout/embedded_layout.h).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/embedded_layout.h"

namespace ucp {

// Reads the entry: `info` is its value, `where` the file from which it was read. Unknown entries in it are skipped,
// since newer writers add some. Fails for a known entry of another form, and for an affine map of a version above 1,
// which this reader could misunderstand.
llvm::Expected<EmbeddedLayout> ReadEmbeddedLayout(const pytorch::Value& info, const std::string& where);

}  // namespace ucp
