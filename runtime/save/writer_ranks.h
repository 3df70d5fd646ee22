// The ranks of a job as their writer knows them: their sockets, what they hold, and what they have called.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/save/message_socket.h"
#include "runtime/save/remote_memory.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/segment.h"

namespace ucp {

struct WriterRank {
  MessageSocket socket;
  HeldState state;
  std::string values;
  std::vector<std::string> abandoned;  // As in JoinMessage.
  Segment segment;
  std::uint64_t process = 0;  // As in JoinMessage, and so is the next.
  BoxMemories memories;
  std::unique_ptr<RemoteMemory> remote;  // In place of `segment`, where the memory itself is read.
  std::optional<SaveMessage> called;     // The save that it has asked for, until that ends.
  bool has_staged = false;
  std::vector<SumLanes> digests;  // As in StagedMessage.
  std::set<std::string> missed;   // Paths of saves that failed, which the others have called and it has not.
  std::string gone;               // Why it no longer takes part; empty: it does.
};

struct WriterRanks {
  std::vector<WriterRank> all;  // By rank.
  SaverSettings settings;       // Of the first that came.

  bool are_gone() const;                // All of them.
  const WriterRank* FirstGone() const;  // Null if none is.
  bool have_called() const;             // All of them.
  bool have_staged() const;             // All of them.
  // "rank 3 of 4", "ranks 1, 3 of 4"
  std::string TextOf(llvm::function_ref<bool(const WriterRank&)> wanted) const;
};

// A rank that does not take it has ended, which is noticed where it is listened to.
void Send(WriterRank& rank, SaveMessageKind kind, const std::string& bytes, int file = -1);

// Waits until all ranks of a job have come to `listener`. Fails (kIo) if some do not come within the timeout of the
// first one's settings, and (kUsage) if ranks differ in their settings; `ranks` are those that came. None came: there
// are none in it.
[[nodiscard]] llvm::Error GatherRanks(int listener, WriterRanks& ranks);

using WriterClock = std::chrono::steady_clock;
WriterClock::time_point AfterSeconds(double seconds);
int MillisecondsUntil(WriterClock::time_point when);  // 0 if it has passed.

}  // namespace ucp
