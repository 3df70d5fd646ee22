// The memory that a writer takes a rank's boxes out of: a segment that the rank stages them in, or its own.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/job_state/job_state.h"
#include "runtime/save/remote_memory.h"
#include "runtime/save/segment.h"
#include "runtime/save/segment_files.h"
#include "runtime/save/stage.h"

namespace ucp {

class RankMemory {
 public:
  // Where a rank's boxes lie, if it lets them be read there.
  struct Own {
    std::uint64_t process = 0;  // As in JoinMessage, and so is the next.
    BoxMemories memories;
  };

  // For these boxes, in a segment of `bytes`, of so many saves at a time. `own`: null if memory is not to be read. The
  // memory of before is given up first.
  [[nodiscard]] llvm::Error Give(std::span<const StagedBox> boxes, std::uint64_t bytes, const StagingWaves& waves,
                                 std::size_t rooms, const Own* own);

  bool is_own() const { return remote_ != nullptr; }
  int descriptor() const { return segment_.descriptor(); }
  // The save that is in this room. As long as this is not given anew.
  void AddTo(SegmentFiles& files, const std::string& name, std::size_t room) const;

 private:
  Segment segment_;
  std::unique_ptr<RemoteMemory> remote_;  // In place of `segment_`.
  StagingWaves waves_;
  std::uint64_t bytes_ = 0;  // Of the file.
};

}  // namespace ucp
