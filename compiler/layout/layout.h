// A checked layout: for every tensor, which product set of it every coordinate of the mesh holds, and on which pipeline
// stages. It comes from a spec (compiler/check) or, where nothing is cut by tensor, from the checkpoint's own header.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"
#include "compiler/sets/product_set.h"

namespace ucp {

// A stored value is the logical one times numerator / denominator (a row-parallel bias divided by its degree).
struct Scale {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  bool operator==(const Scale&) const = default;
};

// The axis of tensors that are described by boxes (from_boxes.h).
inline constexpr const char* kBoxAxis = "box";

struct TensorLayout {
  std::string name;
  std::vector<ShapeExpr> dims;
  std::vector<ProductSet> boxes;  // By the place on kBoxAxis: what is held there. Empty: `dims` say it.
  // Of a target, by the place on kBoxAxis: a rank of its job that asks for the box. Empty: nobody says.
  std::vector<std::int64_t> box_ranks;
  std::vector<std::string> axes;  // Of its own mesh, major to minor; empty: those of the layout's mesh.
  std::optional<std::vector<std::int64_t>> stages;  // The stages that hold it; nothing: those where the source has it.
  std::vector<std::int64_t> unused_stages;          // Stages that hold a copy which they do not train.
  // Where a part of its name is cut (an expert over ep): for each such axis, the places on it that hold the tensor.
  std::map<std::string, std::vector<std::int64_t>> only_at;
  std::vector<std::string> mean_axes;  // Replicas over these have drifted apart: the tensor is their mean.
  Scale scale;
  bool optional = false;             // The source may lack it.
  bool buffer = false;               // A persistent buffer of a module, not a parameter.
  std::vector<std::string> aliases;  // Second names (`tie`).
  std::string declared_at;           // "gpt.ucp:14", or what it was read from.
};

struct Layout {
  Mesh mesh;
  std::vector<TensorLayout> tensors;  // Sorted by name.
  std::vector<std::string> dropped;   // Names of source tensors that the spec drops.

  const TensorLayout* Find(const std::string& name) const;  // By name or alias; nullptr if there is none.
};

// Returns the logical shape, the same on every mesh.
llvm::Expected<std::vector<std::int64_t>> LogicalShape(const TensorLayout& tensor);

// Returns whether the rank at `coordinate` has the tensor at all: its stage is one of its stages (unused ones
// too) and its places are in `only_at`.
bool IsHeldAt(const TensorLayout& tensor, const Coordinate& coordinate);

// The set of the tensor that the rank at `coordinate` of `mesh` holds, if it has it (IsHeldAt is not asked). The set
// need not be increasing where a cut is by `list`. Fails as Select does, or if the set falls into more than
// `kMaxIncreasingPieces` increasing pieces.
inline constexpr std::size_t kMaxIncreasingPieces = 4096;
llvm::Expected<ProductSet> HeldAt(const TensorLayout& tensor, const Mesh& mesh, const Coordinate& coordinate);

// Returns every coordinate of the axes that cut `tensor` or its name at which it is held, in the order of its own mesh;
// one empty coordinate if nothing is cut. Stages are not among them.
std::vector<Coordinate> CoordinatesOf(const TensorLayout& tensor, const Mesh& mesh);

// The layout's own verifier. Every element of every tensor is held by some rank; an axis cuts one dimension or the
// name, and is of the tensor's own mesh; the axes of `mean_axes` cut nothing; nobody divides by 0. The message names
// the tensor.
[[nodiscard]] llvm::Error VerifyLayout(const Layout& layout);

// Returns the layout of a checkpoint in which every tensor is whole, or spread over `ep` as the checkpoint says
// (Inventory::expert_places). Fails where a tensor has other shapes than that, and names it: that checkpoint needs a
// spec.
llvm::Expected<Layout> WholeLayout(const Inventory& inventory);

// Returns the same tensors, each whole, without padding, averaged and unscaled on one rank: the atomic layout of the
// universal format.
llvm::Expected<Layout> AtomicLayout(const Layout& layout);

// "name [8@tp * 4, 16] of pp, dp, tp at pp=0 at ep=2,3 mean@tp scale(1 / 4)"
std::string ToString(const TensorLayout& tensor);

}  // namespace ucp
