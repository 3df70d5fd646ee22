#include "compiler/verifier/verifier.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/paths.h"
#include "compiler/verifier/fitting.h"
#include "compiler/verifier/pieces_apart.h"
#include "compiler/verifier/unsound.h"
#include "compiler/verifier/verify_coverage.h"
#include "compiler/verifier/verify_steps.h"

namespace ucp {
namespace {

llvm::Error VerifyBuffer(const StorageTables& tables, const Buffer& buffer, std::size_t index) {
  if (buffer.parts.empty()) return Unsound("buffer {} has no parts", index);
  if (buffer.part_elements < 0) return Unsound("buffer {} has parts of {} elements", index, buffer.part_elements);
  for (const BufferPart& part : buffer.parts) {
    if (part.record.index() >= tables.records.size()) return Unsound("buffer {} names record {}", index, part.record);
    std::optional<std::int64_t> end = CheckedAdd(part.first_element, part.elements);
    if (end) end = CheckedMultiply(*end, ItemBytes(buffer.dtype));
    bool inside = part.first_element >= 0 && part.elements >= 0 && end &&
                  static_cast<std::uint64_t>(*end) <= tables.record(part.record).bytes;
    if (!inside) {
      return Unsound("{} elements from {} on leave a record of {} bytes in `{}`", part.elements, part.first_element,
                     tables.record(part.record).bytes, tables.file(part.record).path);
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyTables(const StorageTables& tables) {
  std::unordered_set<std::string_view> paths;
  paths.reserve(tables.files.size());
  for (const StoredFile& file : tables.files) {
    if (!StaysInFolder(file.path)) return Unsound("the path `{}` leaves its folder", file.path);
    if (!paths.insert(file.path).second) return Unsound("the path `{}` stands twice", file.path);
  }
  for (const Record& record : tables.records) {
    if (record.file.index() >= tables.files.size()) return Unsound("a record names file {}", record.file);
    std::uint64_t bytes = tables.files[record.file.index()].bytes;
    if (record.begin > bytes || record.bytes > bytes - record.begin) {
      return Unsound("{} bytes from {} on leave `{}`, which has {}", record.bytes, record.begin,
                     tables.files[record.file.index()].path, bytes);
    }
  }
  for (std::size_t b = 0; b < tables.buffers.size(); ++b) {
    UCP_RETURN_IF_ERROR(VerifyBuffer(tables, tables.buffers[b], b));
  }
  for (const BufferSet& set : tables.buffer_sets) {
    for (const StateBuffer& entry : set) {
      if (entry.buffer.index() >= tables.buffers.size()) return Unsound("a state names buffer {}", entry.buffer);
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifySets(const Plan& plan) {
  for (std::size_t s = 0; s < plan.sets.size(); ++s) {
    std::int64_t elements = 1;
    for (const Selection& dim : plan.sets[s].dims) {
      if (!dim.IsIncreasing()) return Unsound("product set {} is not increasing", s);
      std::optional<std::int64_t> product = CheckedMultiply(elements, dim.local_length());
      if (!product || *product >= std::int64_t{1} << 60) return Unsound("product set {} has too many elements", s);
      elements = *product;
    }
  }
  return llvm::Error::success();
}

// The ids of a read or a write, and its set against the tensor's shape.
llvm::Error VerifyShard(const Plan& plan, const StorageTables& tables, TensorId tensor, SetId set, BufferSetId states,
                        std::int64_t base) {
  if (tensor.index() >= plan.tensors.size()) return Unsound("a shard names tensor {}", tensor);
  const LogicalTensor& logical = plan.tensor(tensor).logical;
  if (set.index() >= plan.sets.size()) return Unsound("tensor `{}` names product set {}", logical.name, set);
  if (states.index() >= tables.buffer_sets.size()) return Unsound("tensor `{}` names states {}", logical.name, states);
  if (base < 0 || base >= std::int64_t{1} << 60) return Unsound("tensor `{}` begins at element {}", logical.name, base);
  const ProductSet& product = plan.set(set);
  if (product.dims.size() != logical.shape.size()) {
    return Unsound("tensor `{}` has {} dimensions and a shard of {}", logical.name, logical.shape.size(),
                   product.dims.size());
  }
  for (std::size_t d = 0; d < product.dims.size(); ++d) {
    const std::vector<Run>& runs = product.dims[d].runs();
    if (!runs.empty() && runs.back().logical_begin + runs.back().length > logical.shape[d]) {
      return Unsound("a shard of tensor `{}` holds position {} of dimension {}, which has {}", logical.name,
                     runs.back().logical_begin + runs.back().length - 1, d, logical.shape[d]);
    }
  }
  return llvm::Error::success();
}

// A shard's local tensor must lie within its buffers; the walk over the steps relies on it.
llvm::Error VerifyExtent(const StorageTables& tables, BufferSetId states, const std::string& name, std::int64_t base,
                         Spread spread, std::int64_t elements) {
  for (const StateBuffer& entry : tables.buffer_set(states)) {
    const Buffer& buffer = tables.buffer(entry.buffer);
    auto parts = static_cast<std::int64_t>(buffer.parts.size());
    if (parts == 1 || spread == Spread::kEachTensor) continue;
    std::optional<std::int64_t> room = CheckedMultiply(parts, buffer.part_elements);
    if (!room || base + elements > *room) {
      return Unsound("tensor `{}`, state {}: elements {} to {} leave a buffer of {} parts of {}", name, entry.state,
                     base, base + elements, parts, buffer.part_elements);
    }
  }
  return llvm::Error::success();
}

// All pieces are of one tensor and of one local shape; VerifyPlaces() says that they share it out.
llvm::Error VerifyPiecesOfOne(const Plan& plan, const PlanWrite& write) {
  const std::string& name = plan.NameOf(write);
  for (const WrittenPiece& piece : write.pieces) {
    if (piece.tensor != write.first_tensor()) {
      return Unsound("a shard of tensor `{}` has a piece of `{}` and is not fused", name,
                     plan.tensor(piece.tensor).logical.name);
    }
    if (piece.begin != 0 || !piece.strides.empty()) {
      return Unsound("a piece of tensor `{}` has a place of its own in a shard that is not fused", name);
    }
    const std::vector<std::int64_t> shape = plan.set(piece.set).LocalShape();
    if (shape == plan.LocalShape(write)) continue;
    return Unsound("the pieces of a shard of tensor `{}` have the local shapes [{}] and [{}]", name,
                   fmt::join(plan.LocalShape(write), ", "), fmt::join(shape, ", "));
  }
  return llvm::Error::success();
}

llvm::Error VerifyPieces(const Plan& plan, const PlanWrite& write) {
  for (const WrittenPiece& piece : write.pieces) {
    UCP_RETURN_IF_ERROR(VerifyShard(plan, plan.target, piece.tensor, piece.set, write.states, write.base));
  }
  return write.fused ? VerifyFusedPieces(plan, write) : VerifyPiecesOfOne(plan, write);
}

llvm::Error VerifyWrite(const Plan& plan, const Fitting& fitting, const PlanWrite& write) {
  UCP_RETURN_IF_ERROR(VerifyPieces(plan, write));
  const std::string& name = plan.NameOf(write);
  std::int64_t elements = plan.LocalElements(write);
  UCP_RETURN_IF_ERROR(VerifyExtent(plan.target, write.states, name, write.base, write.spread, elements));
  for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
    if (fitting.Fits(write.spread, write.base, elements, entry.buffer)) continue;
    return Unsound("tensor `{}`, state {} does not fit its place in `{}`", name, entry.state,
                   plan.target.file(plan.target.buffer(entry.buffer).parts.front().record).path);
  }
  return llvm::Error::success();
}

// The distance of the last element from the first.
std::optional<std::int64_t> Span(const ProductSet& set, const std::vector<std::int64_t>& strides) {
  std::optional<std::int64_t> span = 0;
  for (std::size_t d = 0; d < strides.size() && span; ++d) {
    std::optional<std::int64_t> reach = CheckedMultiply(set.dims[d].local_length(), strides[d]);
    span = reach ? CheckedAdd(*span, *reach) : std::nullopt;
  }
  return span;
}

llvm::Error VerifyRead(const Plan& plan, const PlanRead& read) {
  UCP_RETURN_IF_ERROR(VerifyShard(plan, plan.source, read.tensor, read.set, read.states, read.base));
  const std::string& name = plan.tensor(read.tensor).logical.name;
  if (read.role == ReadRole::kUnused && read.reason.empty()) {
    return Unsound("a source shard of tensor `{}` is unused without a reason", name);
  }
  if (read.is_overruled && (plan.preference.empty() || plan.preference.Prefers(read.coordinate))) {
    return Unsound("a source shard of tensor `{}` is overruled, and no other rank is believed over it", name);
  }
  UCP_RETURN_IF_ERROR(
      VerifyExtent(plan.source, read.states, name, read.base, read.spread, plan.set(read.set).local_elements()));
  if (read.strides.empty()) return llvm::Error::success();
  bool sound = read.strides.size() == plan.set(read.set).dims.size() && Span(plan.set(read.set), read.strides) &&
               *Span(plan.set(read.set), read.strides) < std::int64_t{1} << 60;
  for (std::int64_t stride : read.strides) sound = sound && stride >= 0;
  for (const StateBuffer& entry : plan.source.buffer_set(read.states)) {
    sound = sound && plan.source.buffer(entry.buffer).parts.size() == 1;
  }
  if (!sound) return Unsound("tensor `{}` has strides that cannot be", name);
  return llvm::Error::success();
}

// Every file has a set of ranks of the job.
llvm::Error VerifyReaders(const Plan& plan) {
  const FileReaders& readers = plan.readers;
  if (readers.set_of_file.empty() && readers.sets.empty()) return llvm::Error::success();
  if (readers.set_of_file.size() != plan.target.files.size()) {
    return Unsound("it says who opens {} files, and writes {}", readers.set_of_file.size(), plan.target.files.size());
  }
  if (readers.ranks < 0) return Unsound("its files are for {} ranks", readers.ranks);
  std::vector<bool> is_used(readers.sets.size());
  for (std::uint32_t set : readers.set_of_file) {
    if (set >= readers.sets.size()) return Unsound("a file is opened by the set {} of ranks", set);
    is_used[set] = true;
  }
  for (std::size_t set = 0; set < is_used.size(); ++set) {
    if (!is_used[set]) return Unsound("no file is opened by the set {} of ranks", set);
  }
  for (const std::vector<int>& set : readers.sets) {
    int least = 0;
    for (int rank : set) {
      if (rank < least || rank >= readers.ranks) {
        return Unsound("a file is opened by rank {} of {}, which is out of range or out of order", rank, readers.ranks);
      }
      least = rank + 1;
    }
  }
  return llvm::Error::success();
}

bool IsPositive(const Scale& scale) { return scale.numerator > 0 && scale.denominator > 0; }

// Numbers are added and scaled in types that can; what an optimizer knows of a weight does not scale with it.
llvm::Error VerifyArithmetic(const PlanTensor& tensor) {
  const Arithmetic& arithmetic = tensor.arithmetic;
  const std::string& name = tensor.logical.name;
  if (arithmetic == Arithmetic{}) return llvm::Error::success();
  if (arithmetic.terms < 1) return Unsound("tensor `{}` is the mean of {} terms", name, arithmetic.terms);
  if (!IsPositive(arithmetic.divisor) || !IsPositive(arithmetic.factor)) {
    return Unsound("tensor `{}` is stored times a number that is not positive", name);
  }
  bool scaled = arithmetic.divisor != Scale{} || arithmetic.factor != Scale{};
  const bool all_change = scaled || arithmetic.terms > 1;
  for (const LogicalTensor::State& state : tensor.logical.states) {
    if (!all_change && !FollowsOffset(state.name)) continue;
    if (!IsArithmetic(state.dtype)) return Unsound("tensor `{}` is {}, and cannot be added", name, Name(state.dtype));
    if (scaled && state.name != kMasterState && state.name != kWeightState) {
      return Unsound("state {} of tensor `{}` would be scaled", state.name, name);
    }
  }
  return llvm::Error::success();
}

// Each term needs a read of its own; so their number is bounded by the size of the plan.
llvm::Error VerifyTerms(const Plan& plan) {
  std::vector<std::int64_t> reads(plan.tensors.size(), 0);
  for (const PlanRead& read : plan.reads) {
    const PlanTensor& tensor = plan.tensor(read.tensor);
    ++reads[read.tensor.index()];
    if (read.term < 0 || read.term >= tensor.arithmetic.terms) {
      return Unsound("tensor `{}` has {} terms, and a shard is term {}", tensor.logical.name, tensor.arithmetic.terms,
                     read.term);
    }
  }
  for (std::size_t t = 0; t < reads.size(); ++t) {
    std::int64_t terms = plan.tensors[t].arithmetic.terms;
    if (terms > 1 && reads[t] < terms) {
      return Unsound("tensor `{}` has {} terms and {} shards", plan.tensors[t].logical.name, terms, reads[t]);
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyShards(const Plan& plan) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.logical.shape.size() > kMaxRank) {
      return Unsound("tensor `{}` has {} dimensions", tensor.logical.name, tensor.logical.shape.size());
    }
    for (std::int64_t length : tensor.logical.shape) {
      if (length < 0) return Unsound("tensor `{}` has a dimension of {}", tensor.logical.name, length);
    }
    UCP_RETURN_IF_ERROR(VerifyArithmetic(tensor));
  }
  auto in_order = [](const PlanRead& a, const PlanRead& b) {
    return std::tuple(a.tensor, a.term, a.role) < std::tuple(b.tensor, b.term, b.role);
  };
  if (!std::is_sorted(plan.reads.begin(), plan.reads.end(), in_order)) {
    return Unsound("its reads are not sorted by tensor, term and role");
  }
  auto has_none = [](const PlanWrite& write) { return write.pieces.empty(); };
  if (std::any_of(plan.writes.begin(), plan.writes.end(), has_none)) return Unsound("a written shard has no pieces");
  auto by_tensor = [](const PlanWrite& a, const PlanWrite& b) { return a.first_tensor() < b.first_tensor(); };
  if (!std::is_sorted(plan.writes.begin(), plan.writes.end(), by_tensor)) {
    return Unsound("its writes are not sorted by tensor");
  }
  for (const PlanRead& read : plan.reads) UCP_RETURN_IF_ERROR(VerifyRead(plan, read));
  UCP_RETURN_IF_ERROR(VerifyTerms(plan));
  const Fitting fitting(plan.target);
  for (const PlanWrite& write : plan.writes) UCP_RETURN_IF_ERROR(VerifyWrite(plan, fitting, write));
  return llvm::Error::success();
}

llvm::Error VerifyPlacements(const Plan& plan) {
  for (const std::string& directory : plan.directories) {
    if (!StaysInFolder(directory)) return Unsound("the folder `{}` leaves the target", directory);
  }
  for (const BlobPlacement& placement : plan.placements) {
    if (placement.file.index() >= plan.target.files.size() || placement.blob.index() >= plan.blobs.size()) {
      return Unsound("ready-made bytes {} are placed in file {}", placement.blob, placement.file);
    }
  }
  for (const CrcField& field : plan.crc_fields) {
    if (field.file.index() >= plan.target.files.size() || field.record.index() >= plan.target.records.size()) {
      return Unsound("a checksum of record {} is placed in file {}", field.record, field.file);
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifyElementsAndPlaces(const Plan& plan) {
  UCP_RETURN_IF_ERROR(VerifyPlaces(plan));
  UCP_RETURN_IF_ERROR(VerifyOwnTensors(plan));
  UCP_RETURN_IF_ERROR(VerifyElements(plan));
  UCP_RETURN_IF_ERROR(VerifySourceExtents(plan));
  return VerifyCasts(plan);
}

}  // namespace

llvm::Error VerifyPlan(const Plan& plan, unsigned threads) {
  UCP_RETURN_IF_ERROR(VerifyTables(plan.source));
  UCP_RETURN_IF_ERROR(VerifyTables(plan.target));
  UCP_RETURN_IF_ERROR(VerifySets(plan));
  UCP_RETURN_IF_ERROR(VerifyShards(plan));
  UCP_RETURN_IF_ERROR(VerifyPlacements(plan));
  UCP_RETURN_IF_ERROR(VerifyReaders(plan));
  UCP_RETURN_IF_ERROR(VerifyGeometries(plan));
  // None of these relies on another one; in a plan that is not sound, the first one's word counts.
  using Proof = llvm::Error (*)(const Plan&);
  constexpr std::array<Proof, 4> kProofs = {&VerifyElementsAndPlaces, &VerifySteps, &VerifyTargetBytes,
                                            &VerifyArchives};
  return ForEachInParallel(kProofs.size(), {threads, nullptr},
                           [&](unsigned, std::uint64_t number) { return kProofs[number](plan); });
}

}  // namespace ucp
