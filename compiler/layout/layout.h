// A checked layout: for every tensor, which product set of it every coordinate of the mesh holds, and on which pipeline
// stages. It comes from a spec (compiler/check) or, where nothing is cut by tensor, from the checkpoint's own header.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/product_set.h"
#include "compiler/layout/shape.h"

namespace ucp {

struct TensorLayout {
  std::string name;
  std::vector<ShapeExpr> dims;
  std::optional<std::vector<std::int64_t>> stages;  // The stages that hold it; nothing: those where the source has it.
  std::vector<std::int64_t> unused_stages;          // Stages that hold a copy which they do not train.
  bool optional = false;                            // The source may lack it.
  std::vector<std::string> aliases;                 // Second names (`tie`).
  std::string declared_at;                          // "gpt.ucp:14", or what it was read from.
};

struct Layout {
  Mesh mesh;
  std::vector<TensorLayout> tensors;  // Sorted by name.
  std::vector<std::string> dropped;   // Names of source tensors that the spec drops.

  const TensorLayout* Find(const std::string& name) const;  // By name or alias; nullptr if there is none.
};

// The logical shape, the same on every mesh.
llvm::Expected<std::vector<std::int64_t>> LogicalShape(const TensorLayout& tensor);

// What the rank at `coordinate` of `mesh` holds.
llvm::Expected<ProductSet> HeldAt(const TensorLayout& tensor, const Mesh& mesh, const Coordinate& coordinate);

// Every coordinate of the axes that cut `tensor`, in mesh order; one empty coordinate if nothing cuts it.
std::vector<Coordinate> CoordinatesOf(const TensorLayout& tensor, const Mesh& mesh);

// The layout's own verifier: every selection is increasing, no element of any tensor is missing at all coordinates
// together, and elements that several coordinates hold are held by whole product sets. The message names the tensor.
[[nodiscard]] llvm::Error VerifyLayout(const Layout& layout);

// The layout of a checkpoint in which every tensor is whole. Fails where a tensor has different shapes at different
// coordinates, and names it: that checkpoint needs a spec.
llvm::Expected<Layout> WholeLayout(const Inventory& inventory);

// The same tensors, each whole and without padding on one rank: the atomic layout of the universal format.
llvm::Expected<Layout> AtomicLayout(const Layout& layout);

// "name [8@tp * 4, 16] at pp=0"
std::string ToString(const TensorLayout& tensor);

}  // namespace ucp
