// A source seen in another layout of its model (docs/language/model.md): which tensors it would have there, and how
// each is put together of the source's own.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/bind/between_layouts.h"
#include "compiler/describe/bound_source.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/target.h"

namespace ucp {

struct OtherLayout {
  std::string name;
  Layout layout;                                // As the target's ranks hold the tensors.
  std::vector<LogicalTensor> tensors;           // Sorted by name.
  CommonOfTensors common;                       // With the tensors of the source.
  std::map<std::string, std::int64_t> offsets;  // OffsetsBetween() the source and this.
};

// Returns the source in the layout `name` of its model, also if that is its own; `tensors` are JoinTensors() of it. The
// ranks of `degrees` hold its tensors as the layout says; without degrees they are whole. Its training state then
// speaks of the other layout's tensors. Fails with kUsage if there is no such layout. Fails with kSpec if
// one layout stores elements that the other does not, or if the layout does not fit the ranks; the spec's sink says
// why. Fails with kUnsupported if tensors that come together differ in kind, states, dtypes or parameter group, or
// if one tensor goes to tensors with different offsets. Remarks say what moves, and what is left out.
llvm::Expected<OtherLayout> SeeInLayout(BoundSource& source, std::span<const LogicalTensor> tensors,
                                        const std::string& name, const std::optional<Degrees>& degrees,
                                        std::vector<std::string>& remarks);

// Says of the shards that files of `other` have what they are put together of (bind/shard_pieces.h).
[[nodiscard]] llvm::Error FillPieces(const OtherLayout& other, TargetFiles& target);

}  // namespace ucp
