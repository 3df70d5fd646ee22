#include "runtime/save/writer_memory.h"

#include <span>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/job_state/job_items.h"

namespace ucp {

WriterMemory::WriterMemory(FileSystem& files, WriterRanks& ranks)
    : ranks_(ranks), rooms_{Room{SegmentFiles(files, kJobFolder), {}}, Room{SegmentFiles(files, kJobFolder), {}}} {}

llvm::Error WriterMemory::Give(const JoinedState& joined) {
  for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
    WriterRank& rank = ranks_.all[number];
    if (rank.is_elsewhere()) continue;
    const RankShare& share = joined.ranks[number];
    const RankMemory::Own* own = ranks_.settings.reads_memory ? &rank.own : nullptr;
    UCP_RETURN_IF_ERROR(rank.memory.Give(share.boxes, share.segment_bytes, joined.waves, ranks_.settings.rooms, own));
  }
  return llvm::Error::success();
}

void WriterMemory::AddValues(std::size_t room) {
  auto& [files, values] = rooms_[room];
  values.resize(ranks_.all.size());
  for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
    values[number] = std::move(ranks_.all[number].values);
    files.Add(ValuesName(number), std::as_bytes(std::span<const char>(values[number])));
  }
}

void WriterMemory::AddZeros(std::size_t room, const JoinedState& joined) {
  for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
    rooms_[room].files.AddZeros(SegmentName(number), joined.ranks[number].bytes);
  }
}

void WriterMemory::AddSegments(std::size_t room, const JoinedState& joined) {
  AddZeros(room, joined);
  for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
    const WriterRank& rank = ranks_.all[number];
    if (!rank.is_elsewhere()) rank.memory.AddTo(rooms_[room].files, SegmentName(number), room);
  }
}

void WriterMemory::RemoveElsewhere(std::size_t room) {
  for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
    if (ranks_.all[number].is_elsewhere()) rooms_[room].files.Remove(SegmentName(number));
  }
}

}  // namespace ucp
