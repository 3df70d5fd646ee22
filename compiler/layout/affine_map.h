// DeepSpeed's affine maps: who holds which block of one parameter, at one degree (deepspeed/checkpoint/affine.py). A
// map says what is, not how another degree would be cut; a spec says that.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/mesh.h"

namespace ucp {

struct TensorLayout;  // compiler/layout/layout.h, which looks at this file through what inventories hold.

// A strided block: element (i, j, …) is at offset + i * strides[0] + j * strides[1] + ….
struct AffineView {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
  bool operator==(const AffineView&) const = default;
};

// A block of equal shape on both sides.
struct AffinePiece {
  std::vector<std::int64_t> shape;
  AffineView source;                    // In the whole logical tensor.
  AffineView dest;                      // In the rank's shard.
  std::vector<std::int64_t> locations;  // All ranks that hold exactly this block, sorted.
  double scale = 1.0;                   // shard = whole * scale; never 0.
  bool operator==(const AffinePiece&) const = default;
};

struct AffineShard {
  std::vector<std::int64_t> shape;
  std::vector<AffinePiece> pieces;
  bool operator==(const AffineShard&) const = default;
};

struct AffineMap {
  std::vector<std::int64_t> logical_shape;
  std::map<std::int64_t, AffineShard> ranks;
  bool operator==(const AffineMap&) const = default;
};

// More pieces than this DeepSpeed refuses (deepspeed/checkpoint/affine_transfer.py).
inline constexpr std::size_t kMaxAffinePieces = 4096;

// Returns the holders of `tensor` over the ranks of one axis. Blocks that are consecutive on both sides and have the
// same holders are one piece; a rank that holds nothing has none. Fails (kUnsupported) with one clause on the property
// that no map describes: padding, a mean, a cut over another axis, too many pieces.
llvm::Expected<AffineMap> AffineMapOf(const TensorLayout& tensor, const Mesh& mesh, std::string_view axis);

// Returns the map as ParamAffineMap.to_dict writes it; the keys of `ranks` are texts, as JSON wants them.
llvm::json::Object ToJson(const AffineMap& map);

}  // namespace ucp
