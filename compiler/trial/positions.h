// The definitions of docs/algebra.md word by word: the part that a rank holds, as a plain list of positions. Slow and
// obvious, so that it can judge the geometry of compiler/layout, of which it uses nothing but the structures. Tests use
// it too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"

namespace ucp::oracle {

// Positions in local order; kNothing is a padding place.
using List = std::vector<std::int64_t>;
inline constexpr std::int64_t kNothing = -1;

std::int64_t Length(const ShapeExpr& expr);

// No value where a cut rule does not fit.
std::optional<List> Positions(const ShapeExpr& expr, const Mesh& mesh, const Coordinate& coordinate);

// Returns, for each i of `outer` and each j of `inner`: i * inner_length + j.
List ProductOf(const List& outer, const List& inner, std::int64_t inner_length);

// Returns every coordinate of all axes, first axis slowest.
std::vector<Coordinate> AllCoordinates(const Mesh& mesh);

// Returns the logical row-major indices that a coordinate holds, in the order of its row-major local tensor. All cuts
// must fit.
List HeldIndices(const std::vector<ShapeExpr>& dims, const Mesh& mesh, const Coordinate& coordinate);

}  // namespace ucp::oracle
