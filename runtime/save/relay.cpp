#include "runtime/save/relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/comm/connect_machines.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/job_state/job_items.h"
#include "runtime/save/kept_checkpoints.h"
#include "runtime/save/segment_files.h"
#include "runtime/save/written_save.h"
#include "runtime/save_run/save_run.h"

namespace ucp {
namespace {

struct RelayedRank {
  std::size_t number = 0;
  MessageSocket rank;
  MessageSocket first;  // To the first writer.
  RankMemory memory;
  RankMemory::Own own;
  std::uint64_t save = 0;          // The number of the one that it has called last; 0: none.
  std::set<std::uint64_t> staged;  // The numbers of those that it has staged, until they have ended.
  std::uint64_t ended = 0;         // The last one that ended before it had staged it.
  bool lacks_memory = false;       // The save that it has called fails.
  std::uint64_t bytes = 0;
};

class Relay {
 public:
  Relay(FileSystem& files, Descriptor listener) : files_(files, kJobFolder), listener_(std::move(listener)) {}

  llvm::Expected<Served> Run(JoinedRank first) {
    done_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    if (!done_.is_open()) return Fail(ErrorCode::kIo, "eventfd: {}", SystemReason(errno));
    if (llvm::Error error = Prepare(std::move(first))) {
      const FailureText failure = TakeFailure(std::move(error));
      const std::string text = Encode(FailedMessage{0, failure.code, failure.message});
      for (RelayedRank& rank : ranks_) llvm::consumeError(Send(rank.rank, SaveMessageKind::kFailed, text));
      return Served::kNobody;
    }
    while (is_writing_ || HasRanks()) {
      if (llvm::Error error = Step()) {
        writers_->Abandon();  // So this machine's part of a save ends as well.
        return error;
      }
    }
    writers_->Leave();
    return Served::kAll;
  }

 private:
  llvm::Error Prepare(JoinedRank first) {
    settings_ = first.join.settings;
    machines_.job = first.join.machines;
    seconds_ = SecondsToGather(first.join);
    const WriterClock::time_point until = AfterSeconds(seconds_);
    std::vector<JoinMessage> joins;
    Take(std::move(first), joins);
    while (ranks_.size() < static_cast<std::size_t>(machines_.job.ranks_here)) {
      UCP_ASSIGN_OR_RETURN(std::optional<JoinedRank> next, NextRank(listener_.number(), until));
      if (!next) {
        return Fail(ErrorCode::kIo, "{} of the {} ranks of this machine did not come to the writer within {} s",
                    static_cast<std::size_t>(machines_.job.ranks_here) - ranks_.size(), machines_.job.ranks_here,
                    seconds_);
      }
      Take(std::move(*next), joins);
    }
    listener_ = Descriptor(-1);
    if (settings_.nice != 0) ::setpriority(PRIO_PROCESS, 0, settings_.nice);
    UCP_RETURN_IF_ERROR(ConnectWriters());
    for (std::size_t i = 0; i < ranks_.size(); ++i) UCP_RETURN_IF_ERROR(ConnectRank(ranks_[i], joins[i]));
    if (!settings_.node_local) return llvm::Error::success();
    for (const JoinMessage& join : joins) {  // The first writer waits for the ranks no more, however long this takes.
      for (const std::string& path : join.abandoned) RemoveRemains(files_, path, true);
    }
    return llvm::Error::success();
  }

  void Take(JoinedRank joined, std::vector<JoinMessage>& joins) {
    if (joined.machines.is_open()) machines_.listener = std::move(joined.machines);
    RelayedRank& rank = ranks_.emplace_back();
    rank.number = static_cast<std::size_t>(joined.join.rank);
    rank.rank = std::move(joined.socket);
    rank.own = {joined.join.process, std::move(joined.join.memories)};
    joined.join.memories.clear();
    joins.push_back(std::move(joined.join));
  }

  llvm::Error ConnectWriters() {
    const JobMachines& job = machines_.job;
    const Purpose purpose{static_cast<std::uint64_t>(MachinePurpose::kWriter), static_cast<std::uint64_t>(job.machine)};
    UCP_ASSIGN_OR_RETURN(writers_, ConnectMachines(purpose, job.addresses, job.secret, machines_.listener, seconds_));
    machines_.listener = Descriptor(-1);
    return llvm::Error::success();
  }

  llvm::Error ConnectRank(RelayedRank& rank, const JoinMessage& join) {
    const Purpose purpose{static_cast<std::uint64_t>(MachinePurpose::kRank), rank.number};
    UCP_ASSIGN_OR_RETURN(rank.first,
                         ConnectToMachine(machines_.job.addresses.front(), machines_.job.secret, purpose, seconds_));
    UCP_RETURN_IF_ERROR(rank.first.Receive().takeError());  // It says hello.
    return Send(rank.first, SaveMessageKind::kJoin, Encode(join));
  }

  static llvm::Error Send(MessageSocket& socket, SaveMessageKind kind, const std::string& bytes, int file = -1) {
    return socket.Send(static_cast<std::uint64_t>(kind), bytes, file);
  }

  bool HasRanks() const {
    return std::ranges::any_of(ranks_, [](const RelayedRank& rank) { return rank.first.is_open(); });
  }

  // One turn of the loop. Fails when the first writer has gone.
  llvm::Error Step() {
    std::vector<pollfd> waits;
    for (const RelayedRank& rank : ranks_) {
      waits.push_back({rank.rank.descriptor(), POLLIN, 0});  // One below 0 is passed over.
      waits.push_back({rank.first.descriptor(), POLLIN, 0});
    }
    waits.push_back({done_.number(), POLLIN, 0});
    const int ready = ::poll(waits.data(), waits.size(), -1);
    if (ready < 0 && errno != EINTR) return Fail(ErrorCode::kIo, "poll: {}", SystemReason(errno));
    if (ready < 0) return llvm::Error::success();
    if (waits.back().revents != 0) Finish();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (waits[2 * i].revents != 0) PassUp(ranks_[i]);
      if (waits[2 * i + 1].revents != 0) UCP_RETURN_IF_ERROR(PassDown(ranks_[i]));
    }
    return llvm::Error::success();
  }

  void PassUp(RelayedRank& rank) {
    llvm::Expected<SocketMessage> message = rank.rank.Receive();
    if (!message) {
      llvm::consumeError(message.takeError());
      llvm::consumeError(Send(rank.first, SaveMessageKind::kGone, ""));
      rank.rank.Close();
      return CloseIfUnneeded(rank);
    }
    const auto kind = static_cast<SaveMessageKind>(message->kind);
    if (kind == SaveMessageKind::kSave) Note(rank, message->bytes);
    if (kind == SaveMessageKind::kStaged) NoteStaged(rank, message->bytes);
    llvm::consumeError(Send(rank.first, kind, message->bytes));  // The next turn hears of a first writer that is gone.
    if (kind != SaveMessageKind::kLeave) return;
    rank.rank.Close();
    CloseIfUnneeded(rank);
  }

  // A save that a rank has staged is written without it, and this machine's part of it here.
  static void CloseIfUnneeded(RelayedRank& rank) {
    if (!rank.rank.is_open() && rank.staged.empty()) rank.first.Close();
  }

  static void NoteStaged(RelayedRank& rank, const std::string& bytes) {
    llvm::Expected<StagedMessage> staged = DecodeStaged(bytes);
    if (staged && staged->number > rank.ended) rank.staged.insert(staged->number);
    llvm::consumeError(staged.takeError());  // The first writer will say so.
  }

  static void NoteEnded(RelayedRank& rank, const SocketMessage& message) {
    const std::optional<EndOfSave> end = DecodeEnd(message.kind, message.bytes);
    if (!end) return;
    rank.staged.erase(end->number);
    rank.ended = std::max(rank.ended, end->number);
    CloseIfUnneeded(rank);
  }

  static void Note(RelayedRank& rank, const std::string& bytes) {
    llvm::Expected<SaveMessage> save = DecodeSave(bytes);
    if (save) {
      rank.save = save->number;
      if (!save->memories.empty()) rank.own.memories = std::move(save->memories);
    }
    llvm::consumeError(save.takeError());  // The first writer will say so.
  }

  llvm::Error PassDown(RelayedRank& rank) {
    llvm::Expected<SocketMessage> message = rank.first.Receive();
    if (!message) {
      llvm::consumeError(message.takeError());
      if (!rank.first.is_open()) return llvm::Error::success();  // It has been closed here a moment ago.
      return MakeError(ErrorCode::kIo, "the writer of the first rank's machine is gone");
    }
    switch (static_cast<SaveMessageKind>(message->kind)) {
      case SaveMessageKind::kLaidOut:
        return GiveMemory(rank, message->bytes);
      case SaveMessageKind::kWrite:
        return Write(message->bytes);
      case SaveMessageKind::kBegin:
        if (rank.lacks_memory) return llvm::Error::success();  // Its layout is not that of the rank's segment.
        [[fallthrough]];
      default:
        llvm::consumeError(Send(rank.rank, static_cast<SaveMessageKind>(message->kind), message->bytes));
        NoteEnded(rank, *message);
        return llvm::Error::success();
    }
  }

  // A rank without memory fails a save on all ranks, or the making of its saver.
  llvm::Error GiveMemory(RelayedRank& rank, const std::string& bytes) {
    UCP_ASSIGN_OR_RETURN(const LaidOutMessage layout, DecodeLaidOut(bytes));
    if (is_writing_) Finish();  // The first writer has ended that save.
    rank.bytes = layout.segment_bytes;
    const RankMemory::Own* own = settings_.reads_memory ? &rank.own : nullptr;
    llvm::Error error = rank.memory.Give(layout.boxes, layout.segment_bytes, layout.waves, settings_.rooms, own);
    waves_ = layout.waves;
    rank.lacks_memory = static_cast<bool>(error);
    if (!error) {
      llvm::consumeError(Send(rank.rank, SaveMessageKind::kLaidOut, bytes, rank.memory.descriptor()));
      return llvm::Error::success();
    }
    FailureText failure = TakeFailure(std::move(error));
    MessageSocket& other = rank.save > 0 ? rank.first : rank.rank;
    llvm::consumeError(
        Send(other, SaveMessageKind::kFailed, Encode(FailedMessage{rank.save, failure.code, failure.message})));
    return llvm::Error::success();
  }

  llvm::Error Write(const std::string& bytes) {
    UCP_ASSIGN_OR_RETURN(const WriteMessage call, DecodeWrite(bytes));
    if (is_writing_) Finish();
    WrittenSave::Job job{nullptr, settings_, call.path, "", call.force, writers_.get(), 0, waves_};
    for (const RelayedRank& rank : ranks_) {
      rank.memory.AddTo(files_, SegmentName(rank.number), call.room);
      job.staged_bytes += rank.bytes;
    }
    is_writing_ = true;
    path_ = call.path;
    written_.Start(files_, std::move(job), done_.number());
    return llvm::Error::success();
  }

  // Waits for the end of this machine's part. The first writer tells the ranks how the save has ended.
  void Finish() {
    std::uint64_t count = 0;
    if (::read(done_.number(), &count, sizeof count) != static_cast<ssize_t>(sizeof count)) return;
    llvm::Expected<std::string> report = written_.Take();
    if (report && settings_.node_local) kept_.Add(files_, path_, settings_.keep);
    llvm::consumeError(report.takeError());
    is_writing_ = false;
  }

  SegmentFiles files_;
  Descriptor listener_;
  Descriptor done_ = Descriptor(-1);  // An eventfd: this machine's part of a save has been written, or not.
  SaverSettings settings_;
  double seconds_ = 0;  // In which others come.
  WriterMachines machines_;
  std::unique_ptr<SocketRanks> writers_;
  std::vector<RelayedRank> ranks_;
  StagingWaves waves_;
  bool is_writing_ = false;
  std::string path_;      // Of the save that is written, or was last.
  KeptCheckpoints kept_;  // Of this machine's own.
  WrittenSave written_;
};

}  // namespace

llvm::Expected<Served> RelayRanks(FileSystem& files, Descriptor listener, JoinedRank first) {
  return Relay(files, std::move(listener)).Run(std::move(first));
}

}  // namespace ucp
