#include "runtime/engine/buffers.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/digest/file_sums.h"
#include "runtime/engine/checksum_ledger.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/state_digests.h"
#include "runtime/engine/work_list.h"
#include "runtime/storage/direct_file.h"

namespace ucp {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kThreadBytes = 256 * kKiB;  // Stack, the allocator's arena, and a block (chunk()).
constexpr std::uint64_t kMostScratchBytes = 1024 * kKiB;
constexpr std::uint64_t kLeastChunkBytes = 64 * kKiB;
constexpr std::uint64_t kLeastBytesOfThread = kLeastChunkBytes + 32 * kKiB;  // The rest is scratch.
constexpr std::uint64_t kPageBytes = 4 * kKiB;

template <typename T>
std::uint64_t BytesOf(const std::vector<T>& table) {
  return table.size() * sizeof(T);
}

// Entries, without the texts and lists in them.
std::uint64_t EntryBytes(const Plan& plan) {
  std::uint64_t bytes = BytesOf(plan.placements) + BytesOf(plan.crc_fields);
  for (const StorageTables* tables : {&plan.source, &plan.target}) {
    bytes += BytesOf(tables->files) + BytesOf(tables->records) + BytesOf(tables->buffers);
  }
  return bytes;
}

// Units of files that are at the borders of what was written, of as many files as are written at a time.
std::uint64_t BytesOfBorders(const Plan& plan, unsigned threads) {
  std::vector<std::uint64_t> borders(plan.target.files.size(), 0);
  for (const Record& record : plan.target.records) ++borders[record.file.index()];
  for (const BlobPlacement& placement : plan.placements) ++borders[placement.file.index()];
  const std::size_t open = std::min<std::size_t>(threads, borders.size());
  const auto end = borders.begin() + static_cast<std::ptrdiff_t>(open);
  std::partial_sort(borders.begin(), end, borders.end(), std::greater<>());
  return std::accumulate(borders.begin(), end, std::uint64_t{0}) * FileSums::kBytesOfBorder;
}

// The memory of the plan and the tables over it, roughly and rather too much.
std::uint64_t TableBytes(const Plan& plan, unsigned threads) {
  // Twice: paths are strings, every record that is touched has an entry in a ledger, and every file a sum, which a
  // journal's entry has too.
  return WorkList::Bytes(plan) + StateDigests::Bytes(plan) + PlanBytes(plan) + EntryBytes(plan) +
         BytesOfBorders(plan, threads);
}

bool AddsAnything(const Plan& plan) {
  return std::any_of(plan.tensors.begin(), plan.tensors.end(),
                     [](const PlanTensor& tensor) { return tensor.arithmetic.terms > 1; });
}

// Where a shard runs through a tensor in another order than the source, as through a transposed matrix, a chunk of it
// has a short row of the source from each of many places. This many bytes of each are worth a read.
constexpr std::uint64_t kRowBytes = 4 * kKiB;
constexpr std::uint64_t kMostTurnedChunkBytes = 64 * kKiB * kKiB;

std::uint64_t MostChunkBytes(const Plan& plan, std::uint64_t most_chunk_bytes) {
  if (most_chunk_bytes < kDefaultChunkBytes) return most_chunk_bytes;
  std::uint64_t most = most_chunk_bytes;
  for (const PlanWrite& write : plan.writes) {
    for (const WrittenPiece& piece : write.pieces) {
      if (piece.strides.empty() || piece.strides.back() == 1) continue;
      if (plan.set(piece.set).dims.back().local_length() == 1) continue;
      const auto distance = static_cast<std::uint64_t>(piece.strides.back());
      most = std::max(most, std::min(distance, kMostTurnedChunkBytes / kRowBytes) * kRowBytes);
    }
  }
  return most;
}

std::uint64_t DownToPage(std::uint64_t bytes) { return bytes / kPageBytes * kPageBytes; }

// Memory that is neither a thread's buffer nor for checksums.
std::uint64_t FixedBytes(const Plan& plan, unsigned threads, std::uint64_t aside_bytes) {
  return kProgramBytes + threads * kThreadBytes + TableBytes(plan, threads) + aside_bytes;
}

}  // namespace

std::uint64_t PlanBytes(const Plan& plan) {
  std::uint64_t bytes = BytesOf(plan.reads) + BytesOf(plan.writes) + BytesOf(plan.tensors) + EntryBytes(plan);
  for (const PlanWrite& write : plan.writes) {
    bytes += BytesOf(write.pieces);
    for (const WrittenPiece& piece : write.pieces) bytes += BytesOf(piece.strides);
  }
  for (const StorageTables* tables : {&plan.source, &plan.target}) {
    for (const Buffer& buffer : tables->buffers) bytes += BytesOf(buffer.parts);
  }
  for (const std::string& blob : plan.blobs) bytes += blob.size();
  return bytes;
}

std::uint64_t MemoryNeeded(const Plan& plan, unsigned threads, std::uint64_t aside_bytes) {
  const std::uint64_t least = kLeastBytesOfThread + (AddsAnything(plan) ? kLeastChunkBytes : 0);
  return FixedBytes(plan, threads, aside_bytes) + threads * least * 8 / 7 + kPageBytes;
}

llvm::Expected<BufferSizes> DivideMemory(const Plan& plan, unsigned threads, std::uint64_t memory_bytes,
                                         std::uint64_t most_chunk_bytes, std::uint64_t aside_bytes) {
  const std::uint64_t needed = MemoryNeeded(plan, threads, aside_bytes);
  if (memory_bytes < needed) {
    return Fail(ErrorCode::kUsage,
                "{} of memory is too little for this plan with {} {}: it takes {} ({} bytes); raise {} or lower "
                "{}",
                HumanBytes(memory_bytes), threads, threads == 1 ? "thread" : "threads", HumanBytes(needed), needed,
                OptionName(UserOption::kMemory), OptionName(UserOption::kThreads));
  }
  std::uint64_t available = memory_bytes - FixedBytes(plan, threads, aside_bytes);
  std::uint64_t share = (available - available / 8) / threads;
  BufferSizes sizes;
  std::uint64_t parts = AddsAnything(plan) ? 5 : 3;  // One of them is scratch, two are a chunk, and two a term.
  sizes.chunk_bytes = std::min(MostChunkBytes(plan, most_chunk_bytes), DownToPage(share / parts * 2));
  sizes.scratch_bytes = DownToPage(std::min(kMostScratchBytes, share / parts));
  if (AddsAnything(plan)) sizes.term_bytes = sizes.chunk_bytes;
  sizes.ledger_pieces = available / 8 / ChecksumLedger::kBytesPerPiece;
  sizes.left_bytes =
      aside_bytes + available - available / 8 - threads * (sizes.chunk_bytes + sizes.scratch_bytes + sizes.term_bytes);
  return sizes;
}

Buffers::Buffers(const BufferSizes& sizes, unsigned threads)
    : bytes_(threads * (sizes.chunk_bytes + kDirectBlockBytes + sizes.scratch_bytes + sizes.term_bytes)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(bytes_)) {
  std::byte* next = memory_.get();
  for (unsigned thread = 0; thread < threads; ++thread) {
    chunks_.emplace_back(next, sizes.chunk_bytes + kDirectBlockBytes);
    next += chunks_.back().size();
    scratch_.emplace_back(next, sizes.scratch_bytes);
    next += sizes.scratch_bytes;
    terms_.emplace_back(next, sizes.term_bytes);
    next += sizes.term_bytes;
  }
}

std::span<std::byte> Buffers::chunk(unsigned thread, std::uint64_t file_offset) const {
  const std::span<std::byte> all = chunks_[thread];
  const std::uint64_t shift = (file_offset - reinterpret_cast<std::uintptr_t>(all.data())) % kDirectBlockBytes;
  // Elements are taken where they lie, so they must not begin in the middle of a number.
  constexpr std::uint64_t kNumberBytes = 8;
  return all.subspan(shift % kNumberBytes == 0 ? shift : 0, all.size() - kDirectBlockBytes);
}

}  // namespace ucp
