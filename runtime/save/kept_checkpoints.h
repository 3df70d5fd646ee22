// The checkpoints that one writer has written and not removed again.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "runtime/storage/file_system.h"

namespace ucp {

class KeptCheckpoints {
 public:
  // Removes those that are older than the newest `most`; 0 keeps all.
  void Add(FileSystem& files, const std::string& newest, std::uint64_t most);

 private:
  std::deque<std::string> paths_;  // The oldest first.
};

}  // namespace ucp
