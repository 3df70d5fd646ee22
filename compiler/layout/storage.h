// Where elements lie in files: one structure for the files that a format found (inventory.h) and for those that it will
// write (target.h), because a conversion is two layouts of the same tensors.
//
// A record is a byte range of a file that holds elements (a storage record of a `.pt` archive). A buffer is a row of
// records of one dtype, its parts, one for each rank that shares the work. A shard is one tensor at one coordinate: a
// row-major local tensor that begins at element `base` of a buffer, for each of its states. How the local tensor is
// spread over the parts is one of two rules, so that thousands of ranks cost two numbers and not a table:
//
//   kAcrossBuffer  the buffer is one long vector, cut into parts of part_elements (ZeRO-1 and 2, and whole tensors):
//                  element i is at place (base + i) % part_elements of part (base + i) / part_elements
//   kEachTensor    every tensor is cut on its own into parts of k = ceil(n / parts) elements (ZeRO-3):
//                  element i is at place base + i % k of part i / k
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/dtype.h"
#include "compiler/layout/mesh.h"
#include "compiler/sets/product_set.h"
#include "compiler/support/typed_id.h"

namespace ucp {

using FileId = TypedId<struct FileTag>;
using RecordId = TypedId<struct RecordTag>;
using BufferId = TypedId<struct BufferTag>;
using BufferSetId = TypedId<struct BufferSetTag>;

struct StoredFile {
  std::string path;         // Relative to the checkpoint's folder, with `/`.
  std::uint64_t bytes = 0;  // Its size.
  std::string header_hash;  // Source only: ContentHash of what was read to describe it (the pickle).
  bool operator==(const StoredFile&) const = default;
};

struct Record {
  FileId file;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> crc32;  // Source only: what the archive says the CRC-32 of these bytes is.
  bool operator==(const Record&) const = default;
};

struct BufferPart {
  RecordId record;
  std::int64_t first_element = 0;  // Where in the record the part begins.
  std::int64_t elements = 0;       // How many elements are there; the last parts of a source may be short of padding.
  bool operator==(const BufferPart&) const = default;
};

struct Buffer {
  DType dtype = DType::kFloat32;
  std::int64_t part_elements = 0;  // kAcrossBuffer: the length of every part, padding included.
  std::vector<BufferPart> parts;   // At least one.
  bool operator==(const Buffer&) const = default;
};

// State names: "fp32" is the master weight, "weight" what the model computes with, all others are the optimizer's own
// ("exp_avg", "momentum_buffer", …).
inline constexpr const char* kMasterState = "fp32";
inline constexpr const char* kWeightState = "weight";

struct StateBuffer {
  std::string state;
  BufferId buffer;
  bool operator==(const StateBuffer&) const = default;
};
using BufferSet = std::vector<StateBuffer>;  // The states of one shard, sorted by name; their bases are the same.

enum class Spread { kAcrossBuffer, kEachTensor };

enum class TensorKind {
  kParameter,  // Trained: it has optimizer states.
  kFrozen,     // A parameter without optimizer states.
  kBuffer,     // A persistent buffer of a module.
  kCarried,    // Not the model's: it stands in the training state. No digest is made of it.
};

// A shard of a target may be put together of pieces of several tensors: local place (i, j, …) of the piece's set is
// element `begin + i * strides[0] + j * strides[1] + …` of the row-major shard.
struct ShardPiece {
  std::string tensor;
  ProductSet set;
  std::int64_t begin = 0;
  std::vector<std::int64_t> strides;  // One for each dimension of the set; empty: row-major.
  bool operator==(const ShardPiece&) const = default;
};

struct Shard {
  std::string tensor;
  TensorKind kind = TensorKind::kParameter;
  Coordinate coordinate;              // Of the model-parallel axes (pp, tp, …); data-parallel parts are in the buffers.
  std::vector<std::int64_t> shape;    // Local, padding included.
  std::vector<std::int64_t> strides;  // In elements; empty: row-major. Only for buffers of one part.
  std::int64_t base = 0;
  Spread spread = Spread::kAcrossBuffer;
  BufferSetId states;
  std::vector<ShardPiece> pieces = {};  // Targets only, and fused shards alone: `tensor` is their name in the files.
  bool is_tensor = false;  // Of a fused shard: a tensor of the target's own, or a part of one. Digests are made of it.
  bool operator==(const Shard&) const = default;
};

// The tables that shards point into.
struct StorageTables {
  std::vector<StoredFile> files;
  std::vector<Record> records;
  std::vector<Buffer> buffers;
  std::vector<BufferSet> buffer_sets;

  const Record& record(RecordId id) const { return records[id.index()]; }
  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  const BufferSet& buffer_set(BufferSetId id) const { return buffer_sets[id.index()]; }
  const StoredFile& file(RecordId id) const { return files[records[id.index()].file.index()]; }

  FileId Add(StoredFile file);
  RecordId Add(Record record);
  BufferId Add(Buffer buffer);
  BufferSetId Add(BufferSet set);
  bool operator==(const StorageTables&) const = default;
};

struct Storage : StorageTables {
  std::vector<Shard> shards;
};

// Where the local elements [begin, end) of one shard lie: contiguous pieces, in order. `shard_elements` is the number
// of local elements.
struct Fragment {
  std::size_t part = 0;
  std::int64_t place = 0;  // In the part.
  std::int64_t begin = 0;  // Local elements [begin, end) of the shard.
  std::int64_t end = 0;
  bool operator==(const Fragment&) const = default;
};
std::vector<Fragment> FragmentsOf(Spread spread, std::int64_t base, std::int64_t shard_elements, const Buffer& buffer,
                                  std::int64_t begin, std::int64_t end);

}  // namespace ucp
