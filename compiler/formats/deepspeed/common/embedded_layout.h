// Reads `universal_checkpoint_info` (compiler/layout/embedded_layout.h).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/embedded_layout.h"

namespace ucp {

// `info` is the entry's value, `where` the file it was read from. Entries that this reader does not know are not an
// error, since newer writers add some; a known one of another form is, and so is an affine map of a version above 1:
// reading it could misunderstand what was added since.
llvm::Expected<EmbeddedLayout> ReadEmbeddedLayout(const pytorch::Value& info, const std::string& where);

}  // namespace ucp
