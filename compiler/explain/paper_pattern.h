// The seven patterns of "Universal Checkpointing" (Lian et al., USENIX ATC 2025, section 5.3.1 and figure 3), derived
// from the parts that the ranks hold. A spec never writes them.
//
//   Unique     one rank holds it (section 5.3.2: most tensors of a pipeline)
//   Replicate  several ranks hold all of it (layer norms under tensor parallelism, tied embeddings)
//   Partial    ranks update it independently, and it is their mean
//   Shard-V    cut along the first dimension: the paper's "column-wise" is that of Y = XA, and PyTorch stores A
//              transposed, so that column-parallel layers are cut along their first dimension, as is what ZeRO-3
//              flattens
//   Shard-H    cut along the last of several dimensions: "row-wise", row-parallel layers
//   Shard-Hy   cut along several dimensions
//   Shard-NC   a rank holds what is not consecutive, so that concatenating the shards along one dimension does not give
//              the tensor back: fused experts, fused query, key and value of different sizes (the paper's examples),
//              and everything else that is cut behind the first factor of its dimension, or along a dimension in the
//              middle
//
// Axes that copy every tensor alike (dp, edp, sp, cp) count only where they cut: else nothing would ever be Unique.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/holders.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"

namespace ucp {

enum class PaperPattern : std::uint8_t { kUnique, kReplicate, kPartial, kShardV, kShardH, kShardHy, kShardNC };

// "Shard-V"
std::string_view ToString(PaperPattern pattern);

struct DerivedPattern {
  PaperPattern pattern = PaperPattern::kUnique;
  std::string why;  // One clause: "cut along dimension 0 over tp, in one piece".
};

// `holders` are the tensor's own on `mesh` (HoldersOf). A tensor that says no stages is on one.
llvm::Expected<DerivedPattern> DerivePattern(const TensorLayout& tensor, const Mesh& mesh,
                                             const std::vector<Holder>& holders);

}  // namespace ucp
