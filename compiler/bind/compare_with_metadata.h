// Warns of something legal that is perhaps not meant: a spec that reads a tensor otherwise than the checkpoint's own
// metadata does.
#pragma once

#include "compiler/bind/bind.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/layout.h"

namespace ucp {

// Warns, once for each declaration, of tensors that `layout`, lowered from `bound`, and `metadata` do not cut alike;
// the spec's reading counts. Tensors that only one of them has are passed over.
void WarnWhereMetadataDiffers(const BoundSpec& bound, const Layout& layout, const Layout& metadata,
                              DiagnosticSink& sink);

}  // namespace ucp
