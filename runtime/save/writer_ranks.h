// The ranks of a job as their writer knows them: their sockets, what they hold, and what they have called.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/comm/message_socket.h"
#include "runtime/comm/socket_ranks.h"
#include "runtime/save/rank_memory.h"
#include "runtime/save/save_messages.h"

namespace ucp {

using WriterClock = std::chrono::steady_clock;
inline constexpr double kSecondsToConnect = 60;  // Ranks connect as soon as they know the address.

struct WriterRank {
  MessageSocket socket;
  HeldState state;
  std::string values;
  std::vector<std::string> abandoned;  // As in JoinMessage.
  int machine = 0;                     // The writer of another one than this gives the rank its memory.
  RankMemory memory;
  RankMemory::Own own;
  std::optional<SaveMessage> called;  // The save that it has asked for, until that is written or fails.
  std::optional<SaveMessage> next;    // It has staged that one, and others have not.
  bool has_staged = false;
  std::vector<SumLanes> digests;  // As in StagedMessage.
  std::set<std::string> missed;   // Paths of saves that failed, which the others have called and it has not.
  std::string gone;               // Why it no longer takes part; empty: it does.

  bool is_elsewhere() const { return machine != 0; }  // The machine of the first writer is number 0.
};

struct WriterRanks {
  std::vector<WriterRank> all;  // By rank.
  SaverSettings settings;       // Of the first that came.

  bool are_gone() const;                // All of them.
  const WriterRank* FirstGone() const;  // Null if none is.
  llvm::Error GoneError() const;        // Names that one.
  bool have_called() const;             // All of them.
  bool have_staged() const;             // All of them.
  // Fails (kUsage) if they have called other saves, or one has a problem.
  [[nodiscard]] llvm::Error CheckCalls() const;
  // Fails (kBadData) if their digests differ.
  [[nodiscard]] llvm::Error CheckReplicas(const JoinedState& joined) const;
  // The save that some have called has failed, before the others have.
  void NoteMissed();
  // "rank 1 of 4: "; nothing where there is one.
  std::string NamedRank(std::size_t number) const;
  // The state that all hold together, or the part of it that one machine holds (SaverSettings::part).
  llvm::Expected<JoinedState> JoinedStates() const;
  // Each save in parts has file names of its own. Fails with kIo.
  [[nodiscard]] llvm::Error NameFiles(JoinedState& joined) const;
  // "rank 3 of 4", "ranks 1, 3 of 4"
  std::string TextOf(llvm::function_ref<bool(const WriterRank&)> wanted) const;
};

// A rank that does not take it has ended, which is noticed where it is listened to.
void Send(WriterRank& rank, SaveMessageKind kind, const std::string& bytes, int file = -1);

// The writers of the other machines begin with their part.
void SendElsewhere(WriterRanks& ranks, const WriteMessage& message);

// Tells each rank its share, and gives those of this machine their segments.
void SendLayouts(WriterRanks& ranks, const JoinedState& joined, const std::string& plan);

// A rank of this machine that has come to its writer.
struct JoinedRank {
  MessageSocket socket;
  JoinMessage join;
  Descriptor machines = Descriptor(-1);  // The socket at which other machines connect; of the lowest rank.
};
// Waits for one until `until`: nothing if none comes.
llvm::Expected<std::optional<JoinedRank>> NextRank(int listener, WriterClock::time_point until);
// In which all ranks of a job come, once one has.
double SecondsToGather(const JoinMessage& join);
// Greets one that has connected.
llvm::Expected<JoinedRank> Greet(MessageSocket socket);

// The writers of a job's machines, as one of them knows them.
struct WriterMachines {
  JobMachines job;
  Descriptor listener = Descriptor(-1);
  std::map<int, MessageSocket> writers;  // By machine: the others, as far as they have connected.

  bool are_several() const { return job.addresses.size() > 1; }
  // Ends with it: their sockets are handed over.
  std::unique_ptr<SocketRanks> Connected();
};

// Waits until all ranks of a job have come, those of this machine to `listener`, and all writers. Fails (kIo) if some
// do not come within the timeout of the first one's settings, and (kUsage) if ranks differ in their settings; `ranks`
// are those that came.
[[nodiscard]] llvm::Error GatherRanks(int listener, JoinedRank first, WriterRanks& ranks, WriterMachines& machines);

WriterClock::time_point AfterSeconds(double seconds);
int MillisecondsUntil(WriterClock::time_point when);  // 0 if it has passed.

}  // namespace ucp
