#include "runtime/save/rank_memory.h"

#include <sys/types.h>

#include <algorithm>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Of every box that the rank is to stage.
bool HasMemories(const BoxMemories& memories, std::span<const StagedBox> boxes) {
  return std::ranges::all_of(boxes, [&](const StagedBox& box) {
    return box.bytes == 0 || (box.entry < memories.size() && box.box < memories[box.entry].size() &&
                              memories[box.entry][box.box].address != nullptr);
  });
}

}  // namespace

llvm::Error RankMemory::Give(std::span<const StagedBox> boxes, std::uint64_t bytes, const StagingWaves& waves,
                             std::size_t rooms, const Own* own) {
  segment_ = Segment();  // Its memory may be needed.
  remote_ = nullptr;
  waves_ = waves;
  bytes_ = waves.count == 1 ? bytes : waves.count * waves.window;
  if (own != nullptr && HasMemories(own->memories, boxes)) {
    remote_ = std::make_unique<RemoteMemory>(static_cast<pid_t>(own->process), boxes, own->memories);
    if (remote_->IsReadable()) return llvm::Error::success();
    remote_ = nullptr;
  }
  UCP_ASSIGN_OR_RETURN(segment_, Segment::Create(bytes, rooms));
  return llvm::Error::success();
}

void RankMemory::AddTo(SegmentFiles& files, const std::string& name, std::size_t room) const {
  if (remote_ != nullptr) {
    files.Add(name, *remote_, bytes_);
  } else if (waves_.count > 1) {
    files.Add(name, segment_.room(room), waves_);
  } else {
    files.Add(name, segment_.room(room));
  }
}

}  // namespace ucp
