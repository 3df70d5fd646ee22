// Ends a run whose ranks wait for one that will not answer. Each rank tells the next one four times a second that it
// lives, and in which call of the file system it has been for how long; the next one ends the run if it hears nothing
// for too long, as of a process that was stopped or a machine that is gone, or of one call for too long, as of a mount
// that hangs. Ranks of one machine also see at once when another one's process ends. A rank that
// computes for hours is heard of, so it is not ended. A run that was ended is left as after a kill, and can be resumed.
//
//   0 --> 1 --> 2 --> 0    who tells whom
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace ucp {

struct RankPatience {
  std::chrono::seconds limit{300};  // 0: for ever.
  std::string then;                 // The end of a message that ends the run; may be empty.
};

class RankWatch {
 public:
  // All ranks together. Returns nothing if a thread of its own cannot send messages here. `end` is called once, by the
  // watch's thread, with a sentence; empty if another rank of this machine says it. `ranks` must outlive it.
  static llvm::Expected<std::unique_ptr<RankWatch>> Begin(Communicator& ranks, RankPatience patience,
                                                          std::function<void(const std::string& sentence)> end);
  // This rank has nothing to do any more; the others see it end.
  ~RankWatch();

 private:
  class Watching;
  explicit RankWatch(std::unique_ptr<Watching> watching);
  std::unique_ptr<Watching> watching_;
};

}  // namespace ucp
