#include "runtime/save/writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "compiler/files/destination_names.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/job_state/job_items.h"
#include "runtime/save/relay.h"
#include "runtime/save/replicas.h"
#include "runtime/save/segment_files.h"
#include "runtime/save/writer_lock.h"
#include "runtime/save/writer_ranks.h"
#include "runtime/save/written_save.h"
#include "runtime/save_run/save_run.h"

namespace ucp {
namespace {

constexpr std::size_t kMostMissed = 64;  // Of one rank; it has gone other ways long before.

// Where the save is that ranks have called.
enum class Stage { kIdle, kCalling, kStaging, kWriting };

class Writer {
 public:
  Writer(FileSystem& files, Descriptor listener)
      : files_(files, kJobFolder), plain_files_(files), listener_(std::move(listener)) {}

  // `first`: the rank that came first.
  llvm::Expected<Served> Run(JoinedRank first) {
    done_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    if (!done_.is_open()) return Fail(ErrorCode::kIo, "eventfd: {}", SystemReason(errno));
    llvm::Error error = GatherRanks(listener_.number(), std::move(first), ranks_, machines_);
    listener_ = Descriptor(-1);
    machines_.listener = Descriptor(-1);
    if (!error) error = Prepare();
    if (error) {
      Tell(Waiting::kForLayout, std::move(error));
      return Served::kNobody;
    }
    while (!IsOver()) UCP_RETURN_IF_ERROR(Step());
    if (has_lost_machine_) return MakeError(ErrorCode::kIo, "the writer of another machine is gone");
    if (writers_ != nullptr) writers_->Leave();
    return Served::kAll;
  }

 private:
  llvm::Error Prepare() {
    if (ranks_.settings.nice != 0) ::setpriority(PRIO_PROCESS, 0, ranks_.settings.nice);
    for (const WriterRank& rank : ranks_.all) {
      for (const std::string& path : rank.abandoned) RemoveRemains(plain_files_, path);
    }
    if (machines_.are_several()) writers_ = machines_.Connected();
    return LayOut();
  }

  // Joins what all ranks hold, gives each its segment, and sees whether it can be written.
  llvm::Error LayOut() {
    is_laid_out_ = false;
    UCP_ASSIGN_OR_RETURN(joined_, ranks_.JoinedStates());
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      UCP_RETURN_IF_ERROR(GiveMemory(ranks_.all[number], joined_.ranks[number]));
    }
    AddFiles();
    SaveRequest request = ranks_.settings.request;
    request.settings.tag = "checkpoint";
    UCP_ASSIGN_OR_RETURN(const PlannedRun run, PlanSave(files_, joined_, request, ranks_.settings.threads));
    const std::string plan = PlanText(run);
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      const RankShare& share = joined_.ranks[number];
      WriterRank& rank = ranks_.all[number];
      LaidOutMessage message{share.boxes, share.values, share.bytes, plan, {}};
      message.holds_all = !joined_.part || joined_.part->tensors.empty();
      if (ranks_.settings.verifies_replicas) message.replicas = share.replicas;
      Send(rank, SaveMessageKind::kLaidOut, Encode(message), rank.memory.descriptor());
    }
    is_laid_out_ = true;
    return llvm::Error::success();
  }

  bool IsElsewhere(const WriterRank& rank) const { return rank.machine != machines_.job.machine; }

  llvm::Error GiveMemory(WriterRank& rank, const RankShare& share) const {
    if (IsElsewhere(rank)) return llvm::Error::success();
    return rank.memory.Give(share.boxes, share.bytes, ranks_.settings.reads_memory ? &rank.own : nullptr);
  }

  // For a plan, which only wants to know sizes: as long as ranks may be staging.
  void AddFiles() {
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      const WriterRank& rank = ranks_.all[number];
      if (IsElsewhere(rank)) {
        files_.AddZeros(SegmentName(number), joined_.ranks[number].bytes);
      } else {
        rank.memory.AddTo(files_, SegmentName(number));
      }
      files_.Add(ValuesName(number), std::as_bytes(std::span<const char>(rank.values)));
    }
  }

  bool IsOver() const { return stage_ != Stage::kWriting && (has_lost_machine_ || ranks_.are_gone()); }

  // One turn of the loop.
  llvm::Error Step() {
    std::vector<pollfd> waits;
    std::vector<std::size_t> whose;
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      if (!ranks_.all[number].gone.empty()) continue;
      waits.push_back({ranks_.all[number].socket.descriptor(), POLLIN, 0});
      whose.push_back(number);
    }
    waits.push_back({done_.number(), POLLIN, 0});
    const bool has_deadline = stage_ == Stage::kCalling || stage_ == Stage::kStaging;
    const int ready = ::poll(waits.data(), waits.size(), has_deadline ? MillisecondsUntil(deadline_) : -1);
    if (ready < 0 && errno != EINTR) return Fail(ErrorCode::kIo, "poll: {}", SystemReason(errno));
    if (ready < 0) return llvm::Error::success();
    if (ready == 0) GiveUpWaiting();
    if (waits.back().revents != 0) Finish();
    for (std::size_t i = 0; i < whose.size(); ++i) {
      if (waits[i].revents != 0) Hear(whose[i]);
    }
    return llvm::Error::success();
  }

  // W2
  void GiveUpWaiting() {
    const bool is_calling = stage_ == Stage::kCalling;
    const std::string who =
        ranks_.TextOf([&](const WriterRank& rank) { return is_calling ? !rank.called : !rank.has_staged; });
    EndSave(Fail(ErrorCode::kIo, "{} did not {} within {} s of the others", who,
                 is_calling ? "call this save" : "stage its part", ranks_.settings.timeout_seconds));
  }

  void Hear(std::size_t number) {
    WriterRank& rank = ranks_.all[number];
    llvm::Expected<SocketMessage> message = rank.socket.Receive();
    if (!message) {
      llvm::consumeError(message.takeError());
      has_lost_machine_ = has_lost_machine_ || IsElsewhere(rank);
      return Lose(rank, "its process has ended");
    }
    switch (static_cast<SaveMessageKind>(message->kind)) {
      case SaveMessageKind::kSave:
        return Call(rank, message->bytes);
      case SaveMessageKind::kStaged:
        return TakeStaged(rank, message->bytes);
      case SaveMessageKind::kFailed:
        return TakeProblem(number, message->bytes);
      case SaveMessageKind::kLeave:
        return Lose(rank, "it has closed its saver");
      case SaveMessageKind::kGone:
        return Lose(rank, "its process has ended");
      default:
        return Lose(rank, "its messages are not those of this version");
    }
  }

  // That of a save which has failed meanwhile counts no more.
  void TakeStaged(WriterRank& rank, const std::string& bytes) {
    llvm::Expected<StagedMessage> staged = DecodeStaged(bytes);
    rank.has_staged = staged && rank.called && rank.called->number == staged->number;
    if (rank.has_staged) rank.digests = std::move(staged->digests);
    llvm::consumeError(staged.takeError());
    if (stage_ != Stage::kStaging || !ranks_.have_staged()) return;
    if (llvm::Error error = CheckReplicas()) return EndSave(std::move(error));
    Write();
  }

  llvm::Error CheckReplicas() const {
    if (!ranks_.settings.verifies_replicas) return llvm::Error::success();
    std::vector<std::vector<SumLanes>> digests;
    for (const WriterRank& rank : ranks_.all) digests.push_back(rank.digests);
    return CompareReplicas(joined_, digests);
  }

  // The rank cannot stage its part.
  void TakeProblem(std::size_t number, const std::string& bytes) {
    llvm::Expected<FailedMessage> failed = DecodeFailed(bytes);
    const std::optional<SaveMessage>& called = ranks_.all[number].called;
    if (failed && stage_ == Stage::kStaging && called && called->number == failed->number) {
      return EndSave(MakeError(failed->code, NamedRank(number) + failed->message));
    }
    llvm::consumeError(failed.takeError());
  }

  // "rank 1 of 4: "; nothing where there is one.
  std::string NamedRank(std::size_t number) const {
    return ranks_.all.size() == 1 ? "" : fmt::format("rank {} of {}: ", number, ranks_.all.size());
  }

  // W3
  void Lose(WriterRank& rank, const char* why) {
    rank.gone = why;
    rank.socket.Close();
    const bool was_needed = stage_ == Stage::kCalling || (stage_ == Stage::kStaging && !rank.has_staged);
    if (was_needed) EndSave(GoneError());
    if (stage_ == Stage::kWriting && ranks_.are_gone() && !ranks_.settings.finishes_orphans) written_.Cancel();
  }

  llvm::Error GoneError() const {
    const WriterRank* gone = ranks_.FirstGone();
    return Fail(ErrorCode::kIo, "rank {} of {} does not take part: {}", gone - ranks_.all.data(), ranks_.all.size(),
                gone->gone);
  }

  void Call(WriterRank& rank, const std::string& bytes) {
    llvm::Expected<SaveMessage> message = DecodeSave(bytes);
    if (!message || rank.called) {
      llvm::consumeError(message.takeError());
      return Lose(rank, "its messages are not those of this version");
    }
    if (rank.missed.erase(message->path) > 0) {  // It comes after the others have given up.
      const FailedMessage failed{message->number, last_failed_.code, last_failed_.message};
      return Send(rank, SaveMessageKind::kFailed, Encode(failed));
    }
    rank.called = std::move(*message);
    if (stage_ == Stage::kIdle) {
      stage_ = Stage::kCalling;
      deadline_ = AfterSeconds(ranks_.settings.timeout_seconds);
    }
    if (stage_ != Stage::kCalling) return;  // The save before is still being written.
    if (ranks_.FirstGone() != nullptr) return EndSave(GoneError());
    if (ranks_.have_called()) Begin();
  }

  // W1
  void Begin() {
    if (llvm::Error error = CheckCalls()) return EndSave(std::move(error));
    for (WriterRank& rank : ranks_.all) {
      rank.values = std::move(rank.called->values);
      rank.has_staged = false;
      if (!rank.called->memories.empty()) TakeMemories(rank);
      if (!rank.called->has_state) continue;
      rank.state = std::move(rank.called->state);
      is_laid_out_ = false;
    }
    if (is_laid_out_) {
      AddFiles();
    } else if (llvm::Error error = LayOut()) {
      return EndSave(std::move(error));
    }
    stage_ = Stage::kStaging;
    deadline_ = AfterSeconds(ranks_.settings.timeout_seconds);
    for (WriterRank& rank : ranks_.all) Send(rank, SaveMessageKind::kBegin, EncodeNumber(rank.called->number));
  }

  // The boxes have moved.
  void TakeMemories(WriterRank& rank) {
    rank.own.memories = std::move(rank.called->memories);
    is_laid_out_ = is_laid_out_ && !rank.memory.is_own() && !IsElsewhere(rank);
  }

  llvm::Error CheckCalls() const {
    const SaveMessage& first = *ranks_.all.front().called;
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      const SaveMessage& call = *ranks_.all[number].called;
      if (!call.problem.empty()) return Fail(ErrorCode::kUsage, "{}{}", NamedRank(number), call.problem);
      if (call.path != first.path) {
        return Fail(ErrorCode::kUsage, "rank 0 saves to `{}` and rank {} to `{}`", first.path, number, call.path);
      }
    }
    return llvm::Error::success();
  }

  void Write() {
    stage_ = Stage::kWriting;
    const SaveMessage& call = *ranks_.all.front().called;
    SaveRequest request = ranks_.settings.request;
    request.settings.tag = call.tag;
    ConversionOptions destination;
    destination.destination = call.path;
    destination.force = call.force;
    ExecutionOptions execution;
    execution.threads = ranks_.settings.threads;
    execution.memory_bytes = ranks_.settings.memory_bytes;
    execution.ranks = &SingleProcess();
    if (writers_ != nullptr) {
      execution.ranks = writers_.get();
      BeginElsewhere(call);
    }
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {  // They count as this process's.
      if (!IsElsewhere(ranks_.all[number])) execution.memory_bytes += joined_.ranks[number].bytes;
    }
    written_.Start(files_, {&joined_, std::move(request), std::move(destination), std::move(execution)},
                   done_.number());
  }

  // The writers of the other machines begin with their part, and their segments are where they are.
  void BeginElsewhere(const SaveMessage& call) {
    std::set<int> begun;
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      WriterRank& rank = ranks_.all[number];
      if (!IsElsewhere(rank)) continue;
      files_.Remove(SegmentName(number));
      if (!begun.insert(rank.machine).second) continue;
      Send(rank, SaveMessageKind::kWrite, Encode(WriteMessage{call.path, call.force}));
    }
  }

  void Finish() {
    std::uint64_t count = 0;
    if (::read(done_.number(), &count, sizeof count) != static_cast<ssize_t>(sizeof count)) return;
    llvm::Expected<std::string> report = written_.Take();
    if (!report) return EndSave(report.takeError());
    for (WriterRank& rank : ranks_.all) {
      Send(rank, SaveMessageKind::kDone, Encode(DoneMessage{rank.called->number, *report}));
    }
    const std::string path = ranks_.all.front().called->path;
    for (WriterRank& rank : ranks_.all) rank.called.reset();
    stage_ = Stage::kIdle;
    RemoveOld(path);
  }

  // Those that this writer has written, and no others.
  void RemoveOld(const std::string& newest) {
    if (ranks_.settings.keep == 0) return;
    std::erase(kept_, newest);
    kept_.push_back(newest);
    while (kept_.size() > ranks_.settings.keep) {
      // Half a checkpoint has no name. Errors do not matter: the newest ones are what counts.
      const std::string hidden = BesideDestination(kept_.front(), "partial");
      llvm::Error error = plain_files_.Rename(kept_.front(), hidden);
      llvm::consumeError(plain_files_.RemoveTree(error ? kept_.front() : hidden));
      llvm::consumeError(std::move(error));
      kept_.pop_front();
    }
  }

  // The save that ranks have called has failed.
  void EndSave(llvm::Error error) {
    stage_ = Stage::kIdle;
    std::set<std::string> paths;
    for (const WriterRank& rank : ranks_.all) {
      if (rank.called) paths.insert(rank.called->path);
    }
    for (WriterRank& rank : ranks_.all) {
      for (const std::string& path : paths) {
        if (!rank.called || rank.called->path != path) rank.missed.insert(path);
      }
      while (rank.missed.size() > kMostMissed) rank.missed.erase(rank.missed.begin());
    }
    Tell(Waiting::kForSave, std::move(error));
    for (WriterRank& rank : ranks_.all) rank.called.reset();
  }

  // Sends the error to the ranks that wait for this.
  enum class Waiting { kForLayout, kForSave };
  void Tell(Waiting waiting, llvm::Error error) {
    FailureText failure = TakeFailure(std::move(error));
    last_failed_ = {0, failure.code, std::move(failure.message)};
    for (WriterRank& rank : ranks_.all) {
      if (waiting == Waiting::kForSave && !rank.called) continue;
      FailedMessage message = last_failed_;
      if (rank.called) message.number = rank.called->number;
      Send(rank, SaveMessageKind::kFailed, Encode(message));
    }
  }

  SegmentFiles files_;
  FileSystem& plain_files_;
  Descriptor listener_;
  Descriptor done_ = Descriptor(-1);  // An eventfd: a save has been written, or not.
  WriterRanks ranks_;
  WriterMachines machines_;
  std::unique_ptr<SocketRanks> writers_;  // Of a job on several machines.
  bool has_lost_machine_ = false;
  JoinedState joined_;
  bool is_laid_out_ = false;
  Stage stage_ = Stage::kIdle;
  WriterClock::time_point deadline_;
  FailedMessage last_failed_;
  std::deque<std::string> kept_;
  WrittenSave written_;
};

}  // namespace

llvm::Expected<Served> ServeRanks(FileSystem& files, Descriptor listener) {
  UCP_ASSIGN_OR_RETURN(std::optional<JoinedRank> first, NextRank(listener.number(), AfterSeconds(kSecondsToConnect)));
  if (!first) return Served::kNobody;
  UCP_ASSIGN_OR_RETURN(const Descriptor lock, LockShared(first->join.settings.lock_file));
  if (first->join.machines.machine > 0) return RelayRanks(files, std::move(listener), std::move(*first));
  return Writer(files, std::move(listener)).Run(std::move(*first));
}

}  // namespace ucp
