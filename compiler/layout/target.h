// The files that a format will write: files of a known size, their ready-made bytes, and where the elements go. Headers
// are complete before any data is read; only the CRC-32 of each record is filled in when its data has been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/layout/file_readers.h"
#include "compiler/layout/left_out.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/shape.h"
#include "compiler/layout/storage.h"
#include "compiler/sets/product_set.h"
#include "compiler/support/typed_id.h"

namespace ucp {

using BlobId = TypedId<struct BlobTag>;

// Content `blobs[blob]` stands at `offset` of `file`.
struct BlobPlacement {
  FileId file;
  std::uint64_t offset = 0;
  BlobId blob;
  bool operator==(const BlobPlacement&) const = default;
};

// Four bytes at `offset` of `file`, little-endian: the CRC-32 of `record`. They lie inside a blob, which has zeros
// there.
struct CrcField {
  FileId file;
  std::uint64_t offset = 0;
  RecordId record;
  bool operator==(const CrcField&) const = default;
};

// The part that a shard is of a tensor of the target's own (Shard::is_tensor).
struct OwnPart {
  std::vector<std::int64_t> shape;  // Of the tensor.
  ProductSet held;
};

struct TargetFiles {
  std::string format;
  Mesh mesh;
  Storage storage;
  std::map<std::size_t, OwnPart> own_parts;  // By the number of the shard. Others are all of their tensors.
  std::vector<std::string> directories;      // Every folder to make, parents first.
  std::vector<std::string> blobs;            // Distinct contents.
  std::vector<BlobPlacement> placements;
  std::vector<CrcField> crc_fields;
  std::vector<std::string> remarks;  // Sentences for the report: what was adapted or left out, and what to do.
  std::vector<LeftOut> left_out;     // Objects of the source that are not written again.
  FileReaders readers;               // By the format's own rules; empty: not asked for.
  bool weights_only = false;         // The files hold kWeightState alone: masters and optimizer states are left out.

  BlobId AddBlob(std::string content);  // Equal contents are shared.

 private:
  std::unordered_multimap<std::size_t, BlobId> blobs_of_hash_;
};

// One tensor of the model, whichever way it is cut: the facts that a format needs to lay out its files.
struct LogicalTensor {
  struct State {
    std::string name;
    DType dtype = DType::kFloat32;
    bool operator==(const State&) const = default;
  };
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  std::vector<std::int64_t> shape;
  std::vector<State> states;         // Sorted by name. Parameters: the master and the optimizer's; others: "weight".
  std::vector<ShapeExpr> dims;       // How the layout puts each dimension together and cuts it; empty: it does not say.
  std::optional<DType> weight = {};  // The dtype in which the model computes, if the source says it.
};

// The state of this name; nullptr if the tensor has none.
const LogicalTensor::State* FindState(const LogicalTensor& tensor, std::string_view name);

}  // namespace ucp
