// The printed form of the result of the check phase: the mesh, the dims and facts that have values, how each `when` was
// decided, one line for each tensor.
//
//   mesh pp=2 tp=2 dp=2
//   dim hidden = 16, read from `args.hidden_size`
//   fact tied = true, read from `config.tie_word_embeddings`
//   when `tied` holds; `tied` is true, read from `config.tie_word_embeddings`
//   4.mlp.dense_4h_to_h.bias [16]
//   drop rotary.inv_freq
#pragma once

#include <string>

#include "compiler/bind/bind.h"
#include "compiler/layout/layout.h"

namespace ucp {

std::string Print(const BoundSpec& bound, const Layout& layout);  // Lines, each with its line break.

}  // namespace ucp
