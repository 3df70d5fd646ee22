// Chunks that lie within the tensor, do not meet, and have as many elements as it are a partition of it.
#include "compiler/formats/dcp/entries/check_chunks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "compiler/sets/box_index.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

std::string Text(const Chunk& chunk) {
  return fmt::format("the chunk [{}] at [{}]", fmt::join(chunk.sizes, ", "), fmt::join(chunk.offsets, ", "));
}

llvm::Error CheckWithin(const Entry& entry, const Chunk& chunk) {
  bool is_within = chunk.offsets.size() == entry.shape.size() && chunk.sizes.size() == entry.shape.size();
  for (std::size_t d = 0; is_within && d < entry.shape.size(); ++d) {
    is_within = chunk.offsets[d] >= 0 && chunk.sizes[d] >= 0 && chunk.offsets[d] <= entry.shape[d] &&
                chunk.sizes[d] <= entry.shape[d] - chunk.offsets[d];
  }
  if (is_within) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "{} of `{}` is not within the tensor, which is [{}]", Text(chunk), entry.key,
              fmt::join(entry.shape, ", "));
}

bool HasNone(const Chunk& chunk) { return llvm::is_contained(chunk.sizes, 0); }

// A copy that another rank has is the same item: both have one entry in the table of places.
void DropCopies(std::vector<Chunk>& chunks) {
  const auto is_before = [](const Chunk& a, const Chunk& b) {
    return std::tie(a.offsets, a.sizes) < std::tie(b.offsets, b.sizes);
  };
  if (!std::ranges::is_sorted(chunks, is_before)) std::ranges::sort(chunks, is_before);
  const auto copies = std::ranges::unique(
      chunks, [](const Chunk& a, const Chunk& b) { return a.offsets == b.offsets && a.sizes == b.sizes; });
  chunks.erase(copies.begin(), copies.end());
}

// Whether each chunk begins, in the first dimension, where the one before it ends or behind that: as ranks of FSDP cut.
bool AreRows(const Entry& entry) {
  const auto met = std::ranges::adjacent_find(entry.chunks, [](const Chunk& a, const Chunk& b) {
    return a.offsets.empty() || b.offsets[0] < a.offsets[0] + a.sizes[0];
  });
  return met == entry.chunks.end();
}

llvm::Error CheckApart(const Entry& entry) {
  if (AreRows(entry)) return llvm::Error::success();
  BoxIndex index;
  for (std::size_t i = 0; i < entry.chunks.size(); ++i) {
    const Chunk& chunk = entry.chunks[i];
    BoundingBox box;
    for (std::size_t d = 0; d < chunk.sizes.size(); ++d) {
      box.begin.push_back(chunk.offsets[d]);
      box.end.push_back(chunk.offsets[d] + chunk.sizes[d]);
    }
    if (const auto met = index.Meeting(box); !met.empty()) {
      return Fail(ErrorCode::kBadData, "{} and {} of `{}` have elements in common", Text(entry.chunks[met.front()]),
                  Text(chunk), entry.key);
    }
    index.Add(box);
  }
  return llvm::Error::success();
}

llvm::Error CheckPlaces(const Entry& entry) {
  for (const Chunk& chunk : entry.chunks) {
    if (chunk.place.bytes > 0) continue;
    return Fail(ErrorCode::kBadData, "`storage_data` does not say where {} of `{}` lies", Text(chunk), entry.key);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::int64_t> ElementsOf(llvm::ArrayRef<std::int64_t> sizes, DType dtype) {
  std::optional<std::int64_t> bytes = ItemBytes(dtype);
  const bool is_empty = llvm::is_contained(sizes, 0);
  for (const std::int64_t size : sizes) {
    if (size < 0) bytes = std::nullopt;
    if (bytes && size > 0) bytes = CheckedMultiply(*bytes, size);
  }
  if (bytes) return is_empty ? 0 : *bytes / ItemBytes(dtype);
  return Fail(ErrorCode::kBadData, "[{}] of {} is not the size of a tensor", fmt::join(sizes, ", "), Name(dtype));
}

llvm::Error TakeChunks(Entry& entry) {
  llvm::Expected<std::int64_t> elements = ElementsOf(entry.shape, entry.dtype);
  if (!elements) return AddContext(elements.takeError(), fmt::format("`{}`", entry.key));
  for (const Chunk& chunk : entry.chunks) UCP_RETURN_IF_ERROR(CheckWithin(entry, chunk));
  if (*elements > 0) std::erase_if(entry.chunks, HasNone);
  DropCopies(entry.chunks);
  if (*elements == 0 && entry.chunks.size() > 1) entry.chunks.resize(1);
  if (entry.chunks.size() > 1) UCP_RETURN_IF_ERROR(CheckApart(entry));
  std::int64_t held = 0;  // Chunks that lie within a tensor, and are apart, have no more elements than it.
  for (const Chunk& chunk : entry.chunks) {
    UCP_ASSIGN_OR_RETURN(const std::int64_t of_chunk, ElementsOf(chunk.sizes, entry.dtype));
    held += of_chunk;
  }
  if (held == *elements && !entry.chunks.empty()) return CheckPlaces(entry);
  return Fail(ErrorCode::kBadData, "the {} chunks of `{}` hold {} of the {} elements of a tensor of [{}]",
              entry.chunks.size(), entry.key, held, *elements, fmt::join(entry.shape, ", "));
}

}  // namespace ucp::dcp
