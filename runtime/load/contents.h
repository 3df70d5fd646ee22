// The contents that a rank loads, each once: where several of its records hold the same elements, and where other ranks
// also want them.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/load/places.h"

namespace ucp {

// The same elements in another record: element `record_element` of it is the first one.
struct CopyInMemory {
  RecordId record;
  std::int64_t record_element = 0;
};

struct Content {
  TargetRange range;                 // In the first of this rank's records that holds it.
  std::vector<CopyInMemory> copies;  // In its other ones.
};

// The contents that these ranks want, and nobody else.
struct SharedContents {
  std::vector<int> ranks;  // Ascending.
  std::vector<Content> contents;
};

// By RecordId: the ranks that want it, ascending.
using RanksOfRecords = std::vector<std::vector<int>>;

// Returns all that `rank` of so many wants, by who shares it; on all ranks of a list in the same order, cut at the same
// elements. Contents that it wants alone begin somewhere else on each rank, so that not all read the same file first.
std::vector<SharedContents> FindContents(const Plan& plan, const RanksOfRecords& wanted_by, int rank, int ranks);

// A part of a content, no larger than a chunk.
struct Piece {
  std::uint32_t content = 0;
  std::int64_t begin = 0;  // Local elements, as in its range.
  std::int64_t end = 0;
};
std::vector<Piece> CutIntoPieces(const Plan& plan, const std::vector<Content>& contents, std::uint64_t chunk_bytes);

TargetRange RangeOf(const Content& content, const Piece& piece);

// Calls back for each place of a piece's elements in this rank's records: from which byte of a record on.
void ForEachPlace(const Content& content, const Piece& piece,
                  llvm::function_ref<void(RecordId record, std::uint64_t begin)> place);

// Puts the elements of a piece, which lie in the place of its range (the host's), or in `bytes`, where its content is
// held. Bytes for a device are there after Places::Finish().
void PlaceCopies(const Places& places, const Content& content, const Piece& piece);
void PlaceAll(const Places& places, const Content& content, const Piece& piece, std::span<const std::byte> bytes);

}  // namespace ucp
