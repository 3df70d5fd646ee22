// Drafts a spec from a checkpoint's headers: `ucpc infer`. The evidence for a cut, in this order: the layout that
// DeepSpeed embedded (universal_checkpoint_info), the shapes at two tensor-parallel degrees, ranks of different sizes.
// A cut that none of these decides is a question in the draft, with every reading as a comment: nothing is guessed
// silently.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <string>

#include "compiler/layout/inventory.h"

namespace ucp {

struct DraftSpec {
  std::string text;
  std::size_t tensors = 0;
  std::size_t questions = 0;       // Each stands at its place in the text.
  std::size_t open_questions = 0;  // Those without an answer: their tensors are comments.
};

// `elsewhere` is the same model at another tensor-parallel degree; null without one.
llvm::Expected<DraftSpec> InferSpec(const Inventory& inventory, const Inventory* elsewhere);

}  // namespace ucp
