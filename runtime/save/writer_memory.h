// The memory that the ranks of a job stage their saves in, as their writer has it: files of kJobFolder, by room.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/job_state/job_state.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/segment_files.h"
#include "runtime/save/writer_ranks.h"
#include "runtime/storage/file_system.h"

namespace ucp {

class WriterMemory {
 public:
  // `files` is where checkpoints are written. Both must outlive this.
  WriterMemory(FileSystem& files, WriterRanks& ranks);

  // Gives the ranks of this machine the memory for the boxes that they stage. Nobody reads that of before.
  [[nodiscard]] llvm::Error Give(const JoinedState& joined);

  // The files of the save in a room, as long as the memory is not given anew.
  SegmentFiles& files(std::size_t room) { return rooms_[room].files; }
  // They are made for a save with the values that the ranks have, which are taken.
  void AddValues(std::size_t room);
  // For a plan, which only wants to know sizes.
  void AddZeros(std::size_t room, const JoinedState& joined);
  // Those of other machines' ranks are for a plan: as long as ranks may be staging.
  void AddSegments(std::size_t room, const JoinedState& joined);
  // Other machines' segments are where they are from now on.
  void RemoveElsewhere(std::size_t room);

 private:
  struct Room {
    SegmentFiles files;
    std::vector<std::string> values;  // By rank.
  };

  WriterRanks& ranks_;
  std::array<Room, kMostRooms> rooms_;
};

}  // namespace ucp
