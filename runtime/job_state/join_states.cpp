// A key is one tensor over all ranks. Its boxes must be a partition of it; ranks may hold equal boxes, which are
// replicas. A box with one holder is that rank's. Then the replicas are dealt, the largest first, each to the holder
// that has the fewest bytes so far: no rank gets more than the average of those it shares with, and one box.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "runtime/job_state/job_state.h"

namespace ucp {
namespace {

using dcp::Chunk;
using dcp::Entry;
using dcp::Extents;

// A box in the list of a rank.
struct Holder {
  std::size_t rank = 0;
  std::size_t entry = 0;
  std::size_t box = 0;
};

using HoldersOfBoxes = std::map<std::pair<Extents, Extents>, std::vector<Holder>>;

std::string Text(const HeldEntry& entry) {
  if (!entry.is_tensor) return "a value";
  return fmt::format("a tensor [{}] of {}", fmt::join(entry.shape, ", "), Name(entry.dtype));
}

class Joiner {
 public:
  explicit Joiner(const std::vector<HeldState>& ranks) : ranks_(ranks) { joined_.ranks.resize(ranks.size()); }

  llvm::Expected<JoinedState> Run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t entry = 0; entry < ranks_[rank].size(); ++entry) UCP_RETURN_IF_ERROR(Add(rank, entry));
    }
    for (std::size_t number = 0; number < joined_.entries.size(); ++number) UCP_RETURN_IF_ERROR(TakeBoxes(number));
    Deal();
    Place();
    ListReplicas();
    return std::move(joined_);
  }

 private:
  llvm::Error Add(std::size_t rank, std::size_t place) {
    const HeldEntry& held = ranks_[rank][place];
    const auto [known, is_new] = number_of_key_.try_emplace(held.key, joined_.entries.size());
    if (is_new) {
      Entry entry;
      entry.key = held.key;
      entry.path = held.path;
      entry.saved = joined_.entries.size();
      entry.is_tensor = held.is_tensor;
      entry.dtype = held.dtype;
      entry.shape = held.shape;
      if (!held.is_tensor) {
        joined_.ranks[rank].values.push_back(place);
        entry.chunks.push_back({{}, {}, {static_cast<std::uint32_t>(rank), 0, 1}});
      }
      joined_.entries.push_back(std::move(entry));
      first_.push_back({rank, place, 0});
      holders_.emplace_back();
    } else {
      UCP_RETURN_IF_ERROR(CheckSame(first_[known->second], rank, held));
    }
    for (std::size_t box = 0; box < held.boxes.size(); ++box) {
      UCP_RETURN_IF_ERROR(AddBox(known->second, {rank, place, box}));
    }
    return llvm::Error::success();
  }

  llvm::Error CheckSame(const Holder& first, std::size_t rank, const HeldEntry& held) const {
    const HeldEntry& known = ranks_[first.rank][first.entry];
    if (first.rank == rank) return Fail(ErrorCode::kUsage, "rank {} has two entries `{}`", rank, held.key);
    if (known.is_tensor == held.is_tensor && (!known.is_tensor || Text(known) == Text(held))) {
      return llvm::Error::success();
    }
    return Fail(ErrorCode::kUsage, "`{}` is {} on rank {} and {} on rank {}", held.key, Text(known), first.rank,
                Text(held), rank);
  }

  llvm::Error AddBox(std::size_t number, const Holder& holder) {
    const HeldEntry& held = ranks_[holder.rank][holder.entry];
    const HeldBox& box = held.boxes[holder.box];
    std::vector<Holder>& holders = holders_[number][{box.offsets, box.sizes}];
    if (!holders.empty() && holders.back().rank == holder.rank) {
      return Fail(ErrorCode::kUsage, "rank {} has the box [{}] at [{}] of `{}` twice", holder.rank,
                  fmt::join(box.sizes, ", "), fmt::join(box.offsets, ", "), held.key);
    }
    holders.push_back(holder);
    return llvm::Error::success();
  }

  // The chunks are checked as those of a folder.
  llvm::Error TakeBoxes(std::size_t number) {
    Entry& entry = joined_.entries[number];
    if (!entry.is_tensor) return llvm::Error::success();
    for (const auto& [box, holders] : holders_[number]) entry.chunks.push_back({box.first, box.second, {0, 0, 1}});
    if (entry.chunks.empty() && llvm::is_contained(entry.shape, 0)) {  // Of no elements: nobody need hold it.
      entry.chunks.push_back({Extents(entry.shape.size()), Extents(entry.shape.begin(), entry.shape.end()), {0, 0, 1}});
    }
    llvm::Error error = dcp::TakeChunks(entry);
    if (!error) return error;
    std::vector<std::size_t> who;
    for (const auto& [box, holders] : holders_[number]) {
      for (const Holder& holder : holders) who.push_back(holder.rank);
    }
    llvm::sort(who);
    who.erase(std::unique(who.begin(), who.end()), who.end());
    if (who.empty()) return AddContext(std::move(error), "no rank holds a part of it");
    return AddContext(std::move(error), fmt::format("of rank{} {}", who.size() == 1 ? "" : "s", fmt::join(who, ", ")));
  }

  static std::uint64_t BytesOf(const Entry& entry, const Chunk& chunk) {
    auto bytes = static_cast<std::uint64_t>(ItemBytes(entry.dtype));
    for (const std::int64_t size : chunk.sizes) bytes *= static_cast<std::uint64_t>(size);  // TakeChunks() checked it.
    return bytes;
  }

  bool IsHeld(std::size_t number, const Chunk& chunk) const {
    return holders_[number].contains({chunk.offsets, chunk.sizes});
  }

  const std::vector<Holder>& HoldersOf(std::size_t number, const Chunk& chunk) const {
    return holders_[number].at({chunk.offsets, chunk.sizes});
  }

  // Decides Chunk::place.file of every chunk.
  void Deal() {
    std::vector<std::uint64_t> bytes(ranks_.size());
    std::vector<std::tuple<std::uint64_t, std::size_t, Chunk*>> replicas;  // Bytes, number of the entry.
    for (std::size_t number = 0; number < joined_.entries.size(); ++number) {
      Entry& entry = joined_.entries[number];
      if (!entry.is_tensor) continue;
      for (Chunk& chunk : entry.chunks) {
        if (!IsHeld(number, chunk)) continue;
        const std::vector<Holder>& holders = HoldersOf(number, chunk);
        chunk.place.file = static_cast<std::uint32_t>(holders.front().rank);
        const std::uint64_t size = BytesOf(entry, chunk);
        if (holders.size() > 1) {
          replicas.emplace_back(size, number, &chunk);
        } else {
          bytes[holders.front().rank] += size;
        }
      }
    }
    std::ranges::stable_sort(replicas, [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
    for (const auto& [size, number, chunk] : replicas) {
      const std::vector<Holder>& holders = HoldersOf(number, *chunk);
      const auto least =
          std::ranges::min_element(holders, {}, [&](const Holder& holder) { return bytes[holder.rank]; });
      chunk->place.file = static_cast<std::uint32_t>(least->rank);
      bytes[least->rank] += size;
    }
  }

  void Place() {
    for (std::size_t number = 0; number < joined_.entries.size(); ++number) {
      Entry& entry = joined_.entries[number];
      if (!entry.is_tensor) continue;
      for (Chunk& chunk : entry.chunks) {
        if (!IsHeld(number, chunk)) {
          chunk.place = {};
          continue;
        }
        const std::vector<Holder>& holders = HoldersOf(number, chunk);
        const auto holder = llvm::find_if(holders, [&](const Holder& one) { return one.rank == chunk.place.file; });
        RankShare& share = joined_.ranks[holder->rank];
        chunk.place.offset = share.bytes;
        chunk.place.bytes = BytesOf(entry, chunk);
        share.boxes.push_back({holder->entry, holder->box, chunk.place.offset, chunk.place.bytes});
        share.bytes = (share.bytes + chunk.place.bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment;
      }
    }
    for (RankShare& share : joined_.ranks) {
      share.segment_bytes = share.bytes;
      llvm::sort(share.boxes, [](const StagedBox& a, const StagedBox& b) {
        return std::tie(a.entry, a.box) < std::tie(b.entry, b.box);
      });
    }
  }

  void ListReplicas() {
    for (std::size_t number = 0; number < joined_.entries.size(); ++number) {
      for (const auto& [box, holders] : holders_[number]) {
        if (holders.size() < 2) continue;
        Replicas& replicas = joined_.replicas.emplace_back();
        replicas.entry = number;
        replicas.box = {box.first, box.second};
        for (const Holder& holder : holders) {
          std::vector<ReplicatedBox>& of_rank = joined_.ranks[holder.rank].replicas;
          replicas.holders.emplace_back(holder.rank, of_rank.size());
          of_rank.push_back({holder.entry, holder.box});
        }
      }
    }
  }

  const std::vector<HeldState>& ranks_;
  JoinedState joined_;
  std::unordered_map<std::string_view, std::size_t> number_of_key_;
  // Of each entry of `joined_`.
  std::vector<Holder> first_;
  std::vector<HoldersOfBoxes> holders_;
};

}  // namespace

llvm::Expected<JoinedState> JoinStates(const std::vector<HeldState>& ranks) { return Joiner(ranks).Run(); }

}  // namespace ucp
