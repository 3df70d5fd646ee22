// A rank's end of its job's saves: it says what the rank holds, stages it when the writer asks, and hears what became
// of it. All of that happens on a thread of its own; no process group of the job is used after Open().
#pragma once

#include <llvm/Support/Error.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/message_socket.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/save_queue.h"
#include "runtime/save/segment.h"
#include "runtime/save/spawn_writer.h"
#include "runtime/save/stage.h"

namespace ucp {

// The place where the ranks of one machine find their writer.
struct MeetingPlace {
  std::string address;  // A name of their own.
  int lowest_rank = 0;  // Of this machine: it starts the writer.
  int listener = -1;    // Its MachineListener, in a job on several machines; it stays the caller's.
};

class SaveClient {
 public:
  // All ranks together. The lowest rank of each machine starts `program` as the writer; `ranks` is not used afterwards.
  // Fails (kIo) if the machines do not reach each other, and as the plan does; then on all ranks alike.
  static llvm::Expected<std::unique_ptr<SaveClient>> Open(Communicator& ranks, const std::string& program,
                                                          JoinMessage join, BoxMemories memories, unsigned threads);
  // The same for ranks that know without a word to each other where their writer is. `join` has the rank, the number of
  // ranks, the machines if there are several, and the rank's problem if it has one.
  static llvm::Expected<std::unique_ptr<SaveClient>> OpenAt(const MeetingPlace& place, const std::string& program,
                                                            JoinMessage join, BoxMemories memories, unsigned threads);
  ~SaveClient();
  SaveClient(const SaveClient&) = delete;

  // As they were laid out last. The boxes of a wave have their PlaceOf() in the room() of segment() that the save has
  // which is at kStaging. Before any save, or while one is at kStaging.
  LaidOutMessage layout() const;
  std::size_t room() const;
  std::span<std::byte> segment() const { return segment_.memory(); }
  // Until the segment ends, as it does when a state of another shape is laid out. At the same times.
  void KeepWithSegment(std::shared_ptr<void> user) { segment_.Keep(std::move(user)); }

  // Returns the save's number, at once. Saves are staged one after another; as many as the segment has rooms are in
  // flight.
  std::uint64_t Begin(SaveCall call);
  // The caller has staged its boxes of a save that is at kStaging, those of the wave that WaitForWave() was for. It
  // calls this for each wave if it has boxes to stage in any. `problem`: why it could not; the save fails on all ranks.
  // Empty: it has.
  void FinishStaging(std::uint64_t number, const std::string& problem = "");

  // Waits until the save has come so far, for so long at most; whether it has. Fails if the save has failed.
  llvm::Expected<bool> WaitFor(std::uint64_t number, SaveStep step, double seconds);
  llvm::Expected<bool> WaitForWave(std::uint64_t number, std::uint64_t wave, double seconds);
  // Of a save that is at kDone and has not failed: JSON.
  std::string ReportOf(std::uint64_t number) const;

  // No more saves: those that have begun are finished first. Returns soon.
  void Close();
  // Also waits for their end, and on rank 0 for the writer's: its address is free then.
  void CloseAndWait();

 private:
  // A save that this rank has staged, until it hears of its end.
  struct InFlight {
    std::uint64_t number = 0;
    std::string path;
  };

  explicit SaveClient(unsigned threads) : threads_(threads) {}
  [[nodiscard]] llvm::Error Start(Communicator& ranks, const std::string& program);
  [[nodiscard]] llvm::Error StartWriter(const std::string& program, bool are_several);
  [[nodiscard]] llvm::Error Join();
  [[nodiscard]] llvm::Error LetWriterRead();
  llvm::Expected<MessageSocket> Connect();
  llvm::Expected<SocketMessage> Call(const SaveMessage& message);
  llvm::Expected<SocketMessage> CallOnce(const std::string& bytes);
  [[nodiscard]] llvm::Error TakeLayout(SocketMessage& message);
  void Run();
  std::optional<SaveQueue::Taken> NextSave();
  [[nodiscard]] llvm::Error RunSave(std::uint64_t number, SaveCall call);
  llvm::Expected<bool> Stage(const BeginMessage& begin, const std::string& path);
  llvm::Expected<SocketMessage> Receive();
  llvm::Expected<SocketMessage> ReceiveAny();
  void HearOfEnd();
  bool NoteEnd(const SocketMessage& message);
  llvm::Error WriterIsGone();
  bool HasWriter();

  const unsigned threads_;
  std::string program_;
  JoinMessage join_;  // As it would be sent now.
  std::string address_;
  MessageSocket socket_;
  std::optional<WriterProcess> writer_;  // Of the lowest rank of a machine, which has started it.
  int lowest_rank_ = 0;                  // Of this machine.
  MachineListener machine_listener_;     // Of the same rank, in a job on several machines.
  Segment segment_;
  BoxMemories memories_;
  bool is_read_directly_ = false;  // Nothing is staged: the writer reads this process's memory.
  std::deque<InFlight> in_flight_;

  const pid_t process_ = ::getpid();

  // In a fork of the process there is no thread, and none of this may be touched or destroyed.
  struct Shared {
    SaveQueue queue;
    std::mutex mutex;  // Protects the next two. Only the thread changes them.
    LaidOutMessage layout;
    std::size_t room = 0;  // Of the save that was staged last.
    std::thread thread;
  };
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
};

}  // namespace ucp
