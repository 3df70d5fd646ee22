// A record that is all of one state of one tensor, from its first byte to its last, is what a process might hold of it.
// So the records are taken for held tensors, and held_as_stored.h finds where the source has each of them. What a proof
// would say then follows from three things that are looked at here and there:
//
//   - every record is filled: each has a stretch of the source, of just as many bytes, and no two have a tensor's state
//     in common;
//   - by nothing else: a record has memory of its own, into which nothing but its stretch is read;
//   - from what is there: each stretch lies in its record of the source, and that in its file.
#include "runtime/load/target_as_stored.h"

#include <optional>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "runtime/load/held_as_stored.h"
#include "runtime/load/held_tensors.h"

namespace ucp {
namespace {

class RecordsAsHeld {
 public:
  explicit RecordsAsHeld(const Storage& target) : target_(target), is_held_(target.records.size(), false) {}

  // Whether each record is all of one state of one tensor.
  bool Take() {
    for (const Shard& shard : target_.shards) {
      if (!shard.strides.empty()) return false;
      for (const StateBuffer& state : target_.buffer_set(shard.states)) {
        if (!Take(shard, state)) return false;
      }
    }
    return held.size() == target_.records.size();
  }

  HeldByRank held;
  std::vector<RecordId> records;  // For each of them.

 private:
  bool Take(const Shard& shard, const StateBuffer& state) {
    const Buffer& buffer = target_.buffer(state.buffer);
    const BufferPart& part = buffer.parts.front();
    std::optional<std::int64_t> bytes = ItemBytes(buffer.dtype);
    for (std::int64_t length : shard.shape) bytes = bytes ? CheckedMultiply(*bytes, length) : std::nullopt;
    const bool is_all = bytes && buffer.parts.size() == 1 && shard.base == 0 && part.first_element == 0 &&
                        target_.record(part.record).bytes == static_cast<std::uint64_t>(*bytes);
    if (!is_all || is_held_[part.record.index()]) return false;
    is_held_[part.record.index()] = true;
    held.push_back({shard.tensor, state.state, buffer.dtype, shard.shape, HoldsOfWhole(shard.shape)});
    records.push_back(part.record);
    return true;
  }

  const Storage& target_;
  std::vector<bool> is_held_;  // By RecordId.
};

}  // namespace

std::vector<StoredBytes> FindTargetAsStored(const SourcePhase& source, const TargetFiles& target) {
  RecordsAsHeld taken(target.storage);
  if (!taken.Take()) return {};
  std::optional<HeldAsStored> found = FindAsStored(source, taken.held, /*all_tensors=*/true, /*kept=*/{});
  if (!found) return {};
  std::vector<StoredBytes> as_stored(target.storage.records.size());
  for (std::size_t i = 0; i < taken.held.size(); ++i) {
    StoredBytes& stored = as_stored[taken.records[i].index()];
    if (found->records[i]) {
      stored = std::move(found->load.as_stored[found->records[i]->index()]);
    } else {
      stored.tensor = taken.held[i].tensor;  // It has no elements.
    }
    const std::uint64_t bytes = target.storage.record(taken.records[i]).bytes;
    UCP_CHECK(stored.bytes == bytes, "record {} has {} bytes, and the source {} for it", taken.records[i], bytes,
              stored.bytes);
  }
  return as_stored;
}

}  // namespace ucp
