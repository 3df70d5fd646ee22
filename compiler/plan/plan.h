// The plan: everything that a conversion will do, as pure data (docs/plan.md). The runtime knows nothing else of the
// compiler. A plan stores shared entries once; the steps are enumerated from it (steps.h).
//
//   source, target   files, records, buffers and their parts, of what is read and of what is written
//   tensors          the logical tensors, with their states
//   sets             distinct product sets: what some rank holds of some tensors
//   geometries       for each pair of a source set and a target set that meet: what they have in common, dimension by
//                    dimension, before any flat range is cut from it
//   reads, writes    one for each stored tensor and coordinate, all states and all data-parallel parts together; what
//   is
//                    read is of one tensor, and what is written may be fused of several
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/layout/file_readers.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/left_out.h"
#include "compiler/layout/rank_preference.h"
#include "compiler/layout/storage.h"
#include "compiler/layout/target.h"
#include "compiler/sets/product_set.h"
#include "compiler/support/typed_id.h"

namespace ucp {

using TensorId = TypedId<struct TensorTag>;
using SetId = TypedId<struct SetTag>;

// The arithmetic on a tensor between source and target, in this order. All of it is in the state's own dtype and
// rounded after every operation, as PyTorch does it: `sum(slices) / len(slices)`, `shard / scale`.
struct Arithmetic {
  std::int64_t terms = 1;  // Copies that have drifted apart: they are added in this order, and divided by their number.
  Scale divisor;           // The source stores the tensor times this.
  Scale factor;            // The target stores the tensor times this.
  // Is then added to weights and masters, in float32, or float64 where either side is that, and rounded once, to the
  // target's dtype. Other states stay as they are.
  std::int64_t offset = 0;
  bool operator==(const Arithmetic&) const = default;
};

// Returns whether Arithmetic::offset is added to this state of a tensor.
bool FollowsOffset(std::string_view state);

struct PlanTensor {
  LogicalTensor logical;    // Its states are those that the target holds, in the dtypes of what feeds them.
  std::string declared_at;  // The spec line, or what else declared it.
  Arithmetic arithmetic = {};
};

struct Geometry {
  SetId source;
  SetId target;
  std::vector<std::vector<Progression>> dims;  // Every list is sorted and not empty.
  bool operator==(const Geometry&) const = default;
};

// The use of a source shard.
enum class ReadRole {
  kCopy,           // Its elements are written to the target, or are a term of what is written.
  kCompare,        // A replica: it must equal what is copied, or the conversion fails.
  kCheckRounding,  // A weight whose master is written: it should be the master's rounding, or the report says so.
  kUnused,         // Not read; `reason` says why.
};

struct PlanRead {
  TensorId tensor;
  ReadRole role = ReadRole::kCopy;
  SetId set;  // Increasing. Positions that this read is not for are padding in it.
  Coordinate coordinate;
  std::vector<std::int64_t> strides;  // In elements; empty: row-major.
  std::int64_t base = 0;
  Spread spread = Spread::kAcrossBuffer;
  BufferSetId states;
  std::string reason;         // kUnused only.
  std::int64_t term = 0;      // The index of the term of its tensor's Arithmetic that it gives, or is compared with.
  bool is_overruled = false;  // kCompare and kCheckRounding: the user prefers another rank; differences are reported.
};

// A part of a written shard, of one tensor. Local place (i, j, …) of the set is the shard's element `begin + i *
// strides[0] + j * strides[1] + …`. The strides are nested: in the order of their sizes, each is larger than the
// distance that all smaller ones reach, so the shard's elements run through the set in the order of its dimensions'
// strides.
struct WrittenPiece {
  TensorId tensor;
  SetId set;                               // Increasing. Padding may be another piece's place.
  std::int64_t begin = 0;                  // Fused shards only.
  std::vector<std::int64_t> strides = {};  // Fused shards only, one for each dimension; empty: row-major.
  auto operator<=>(const WrittenPiece&) const = default;
};

// The part of a tensor of the target's own that a fused shard is.
struct PartOfOwn {
  std::vector<std::int64_t> shape;  // Of the tensor.
  std::vector<SetId> held;  // Of its elements, increasing; each with the shard's places. No element is in two of them.
  bool operator==(const PartOfOwn&) const = default;
};

// A stored tensor that is put together of pieces: of several tensors, or with their elements in another order.
struct FusedTensor {
  std::string name;                 // In the target's files.
  std::vector<std::int64_t> shape;  // Local. The shard's elements are row-major.
  bool is_tensor = false;           // It is a tensor of the target's own, of which digests are made, or a part of one.
  std::optional<PartOfOwn> part = std::nullopt;  // Nothing: it is all of the tensor.
  bool operator==(const FusedTensor&) const = default;

  const std::vector<std::int64_t>& ShapeOfTensor() const { return part ? part->shape : shape; }
};

struct PlanWrite {
  // Sorted by tensor. A real place of the shard is in one piece, and padding in the others. Without `fused`, all are of
  // one tensor and of one local shape, the shard's: one piece, but where a `list` gives positions in falling order.
  std::vector<WrittenPiece> pieces;
  Coordinate coordinate;
  std::int64_t base = 0;
  Spread spread = Spread::kAcrossBuffer;
  BufferSetId states;
  std::optional<FusedTensor> fused = std::nullopt;  // Its tensors have the same arithmetic and dtypes.

  TensorId first_tensor() const { return pieces.front().tensor; }
};

struct Plan {
  std::string tool_version;
  std::string spec_hash;  // ContentHash of the spec's text; empty without one.
  std::string source_format;
  std::string target_format;
  Mesh source_mesh;
  Mesh target_mesh;

  StorageTables source;
  StorageTables target;
  std::vector<std::string> directories;  // Of the target, parents first.
  std::vector<std::string> blobs;
  std::vector<BlobPlacement> placements;
  std::vector<CrcField> crc_fields;

  std::vector<PlanTensor> tensors;  // Sorted by name.
  std::vector<ProductSet> sets;
  std::vector<Geometry> geometries;  // Sorted by (source, target).
  std::vector<PlanRead> reads;       // Sorted by (tensor, term, role); kUnused ones too, so that all is accounted for.
  std::vector<PlanWrite> writes;     // Sorted by their first tensors.
  std::vector<std::string> remarks;  // Sentences for the report.

  // The ranks that will open each of the target's files: nodes need this on disks of their own. Left out of a plan
  // file, and empty then, if a job of any size opens all of them.
  FileReaders readers;

  RankPreference preference;            // Whom the user believes where copies differ.
  std::vector<RankDecision> decisions;  // Its decisions when the plan was made.

  std::vector<LeftOut> left_out;  // Objects of the source that the target lacks.

  const PlanTensor& tensor(TensorId id) const { return tensors[id.index()]; }
  const ProductSet& set(SetId id) const { return sets[id.index()]; }
  // Returns the name that the target has for it.
  const std::string& NameOf(const PlanWrite& write) const {
    return write.fused ? write.fused->name : tensor(write.first_tensor()).logical.name;
  }
  // Returns what is added to the elements of a state of it.
  std::int64_t OffsetOf(const PlanWrite& write, std::string_view state) const {
    const std::int64_t offset = tensor(write.first_tensor()).arithmetic.offset;
    return offset != 0 && FollowsOffset(state) ? offset : 0;
  }
  std::vector<std::int64_t> LocalShape(const PlanWrite& write) const {
    return write.fused ? write.fused->shape : set(write.pieces.front().set).LocalShape();
  }
  std::int64_t LocalElements(const PlanWrite& write) const;
};

// Returns whether Arithmetic can be done in it, and it can be cast: float16, bfloat16, float32, float64.
bool IsArithmetic(DType dtype);

std::optional<BufferId> FindState(const BufferSet& set, const std::string& state);

// Bytes, as `ucpc plan` and the reports state them.
struct PlanTotals {
  std::uint64_t bytes_to_copy = 0;     // Source bytes that are written to the target.
  std::uint64_t bytes_to_compare = 0;  // Source bytes that are read only to be compared or checked.
  std::uint64_t bytes_to_write = 0;    // Sizes of all target files.
  std::uint64_t source_files = 0;
  std::uint64_t target_files = 0;
  std::uint64_t tensors = 0;
};
PlanTotals Totals(const Plan& plan);

}  // namespace ucp
