#include "runtime/save/writer.h"

#include <fmt/format.h>
#include <llvm/ADT/STLExtras.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/jobs/save/waves.h"
#include "runtime/save/kept_checkpoints.h"
#include "runtime/save/relay.h"
#include "runtime/save/writer_lock.h"
#include "runtime/save/writer_memory.h"
#include "runtime/save/writer_ranks.h"
#include "runtime/save/written_save.h"
#include "runtime/save_run/save_run.h"

namespace ucp {
namespace {

// Where the save is that ranks have called, until it is written.
enum class Stage {
  kIdle,
  kCalling,
  kCalled,  // By all, and no room of the segments is free, or the segments are not those that it needs.
  kStaging,
  kStaged,   // By all, and the one before is still being written.
  kWriting,  // A wave of it, and others are to be staged.
};

// A save that is being written.
struct Writing {
  std::string path;
  std::vector<std::uint64_t> numbers;  // By rank: that of its call.
  std::size_t room = 0;
};

class Writer {
 public:
  Writer(FileSystem& files, Descriptor listener)
      : plain_files_(files), listener_(std::move(listener)), memory_(files, ranks_) {}

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
      for (const std::string& path : rank.abandoned) RemoveRemains(plain_files_, path, ranks_.settings.node_local);
    }
    if (machines_.are_several()) writers_ = machines_.Connected();
    return LayOut();
  }

  // Joins what all ranks hold, sees whether it can be written, and gives each rank its segment.
  llvm::Error LayOut() {
    is_laid_out_ = false;
    UCP_ASSIGN_OR_RETURN(joined_, ranks_.JoinedStates());
    memory_.AddValues(room_);
    memory_.AddZeros(room_, joined_);
    SaveRequest request = ranks_.settings.request;
    request.settings.tag = "checkpoint";
    UCP_ASSIGN_OR_RETURN(const PlannedRun run,
                         PlanSave(memory_.files(room_), joined_, request, ranks_.settings.threads));
    UCP_RETURN_IF_ERROR(CutIntoWaves(run.plan, ranks_.settings.staging_bytes, joined_));
    UCP_RETURN_IF_ERROR(memory_.Give(joined_));
    memory_.AddSegments(room_, joined_);
    SendLayouts(ranks_, joined_, PlanText(run, joined_.waves));
    is_laid_out_ = true;
    return llvm::Error::success();
  }

  bool IsOver() const { return !writing_ && (has_lost_machine_ || (stage_ != Stage::kStaged && ranks_.are_gone())); }

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
    if (waits.back().revents != 0) HearOfWriting();
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
      has_lost_machine_ = has_lost_machine_ || rank.is_elsewhere();
      return Lose(rank, rank.is_elsewhere() ? "its machine, or the writer there, is gone" : "its process has ended");
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
    if (wave_ > 0) {
      written_.GoOn();
      return WaveIsGiven();
    }
    if (llvm::Error error = ranks_.CheckReplicas(joined_)) return EndSave(std::move(error));
    stage_ = Stage::kStaged;
    Proceed();
  }

  // The rank cannot stage its part.
  void TakeProblem(std::size_t number, const std::string& bytes) {
    llvm::Expected<FailedMessage> failed = DecodeFailed(bytes);
    const std::optional<SaveMessage>& called = ranks_.all[number].called;
    if (failed && stage_ == Stage::kStaging && called && called->number == failed->number) {
      return EndSave(MakeError(failed->code, ranks_.NamedRank(number) + failed->message));
    }
    llvm::consumeError(failed.takeError());
  }

  bool is_last_wave() const { return wave_ + 1 == joined_.waves.count; }
  // Some waves of the save that ranks have called are written.
  bool is_in_waves() const { return stage_ == Stage::kWriting || (stage_ == Stage::kStaging && wave_ > 0); }

  // W3. By the connection of a rank of another machine its writer hears of saves that the rank has staged.
  void Lose(WriterRank& rank, const char* why) {
    rank.gone = why;
    if (!rank.is_elsewhere()) rank.socket.Close();
    const bool was_needed = stage_ == Stage::kCalling || stage_ == Stage::kCalled || stage_ == Stage::kWriting ||
                            (stage_ == Stage::kStaging && !(rank.has_staged && is_last_wave()));
    if (was_needed) EndSave(ranks_.GoneError());
    if (writing_ && is_dropped()) written_.Cancel();
  }

  // Nobody is left who wants what was staged.
  bool is_dropped() const { return ranks_.are_gone() && !ranks_.settings.finishes_orphans; }

  void Call(WriterRank& rank, const std::string& bytes) {
    llvm::Expected<SaveMessage> message = DecodeSave(bytes);
    if (!message || (rank.called && (!rank.has_staged || rank.next))) {
      llvm::consumeError(message.takeError());
      return Lose(rank, "its messages are not those of this version");
    }
    if (rank.missed.erase(message->path) > 0) {  // It comes after the others have given up.
      const FailedMessage failed{message->number, last_failed_.code, last_failed_.message};
      return Send(rank, SaveMessageKind::kFailed, Encode(failed));
    }
    if (rank.called) {
      rank.next = std::move(*message);
      return;
    }
    rank.called = std::move(*message);
    rank.has_staged = false;
    CountCalls();
  }

  // Of the save that some ranks have called.
  void CountCalls() {
    if (stage_ == Stage::kIdle) {
      stage_ = Stage::kCalling;
      deadline_ = AfterSeconds(ranks_.settings.timeout_seconds);
    }
    if (ranks_.FirstGone() != nullptr) return EndSave(ranks_.GoneError());
    if (!ranks_.have_called()) return;
    if (llvm::Error error = ranks_.CheckCalls()) return EndSave(std::move(error));
    stage_ = Stage::kCalled;
    Proceed();
  }

  // With the save that has waited for another one.
  void Proceed() {
    if (stage_ == Stage::kCalled && (!writing_ || HasRoomNow())) return Begin();
    if (stage_ != Stage::kStaged || writing_) return;
    if (is_dropped()) return EndSave(ranks_.GoneError());
    Write();
  }

  // W1. Beside the one that is written.
  bool HasRoomNow() const {
    return ranks_.settings.rooms > 1 && is_laid_out_ && llvm::none_of(ranks_.all, [](const WriterRank& rank) {
             return rank.called->has_state || !rank.called->memories.empty();
           });
  }

  void Begin() {
    room_ = writing_ ? 1 - writing_->room : 0;
    for (WriterRank& rank : ranks_.all) {
      rank.values = std::move(rank.called->values);
      if (!rank.called->memories.empty()) TakeMemories(rank);
      if (!rank.called->has_state) continue;
      rank.state = std::move(rank.called->state);
      is_laid_out_ = false;
    }
    if (is_laid_out_) {
      memory_.AddValues(room_);
      memory_.AddSegments(room_, joined_);
    } else if (llvm::Error error = LayOut()) {
      return EndSave(std::move(error));
    }
    BeginWave(0);
  }

  void BeginWave(std::uint64_t wave) {
    wave_ = wave;
    stage_ = Stage::kStaging;
    deadline_ = AfterSeconds(ranks_.settings.timeout_seconds);
    for (WriterRank& rank : ranks_.all) {
      rank.has_staged = false;
      Send(rank, SaveMessageKind::kBegin, Encode(BeginMessage{rank.called->number, room_, wave}));
    }
  }

  // The boxes have moved.
  void TakeMemories(WriterRank& rank) {
    rank.own.memories = std::move(rank.called->memories);
    is_laid_out_ = is_laid_out_ && !rank.memory.is_own() && !rank.is_elsewhere();
  }

  void Write() {
    if (llvm::Error error = ranks_.NameFiles(joined_)) return EndSave(std::move(error));
    const SaveMessage call = *ranks_.all.front().called;
    writing_ = Writing{call.path, {}, room_};
    WrittenSave::Job job{&joined_, ranks_.settings, call.path, call.tag, call.force};
    job.writers = writers_ == nullptr ? &SingleProcess() : writers_.get();
    job.waves = joined_.waves;
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      const WriterRank& rank = ranks_.all[number];
      writing_->numbers.push_back(rank.called->number);
      if (!rank.is_elsewhere()) job.staged_bytes += joined_.ranks[number].segment_bytes;
    }
    if (writers_ != nullptr) {
      memory_.RemoveElsewhere(room_);  // Their segments are where they are.
      SendElsewhere(ranks_, {call.path, call.force, room_});
    }
    written_.Start(memory_.files(room_), std::move(job), done_.number());
    WaveIsGiven();
  }

  // The thread that writes has got the wave that all have staged.
  void WaveIsGiven() {
    if (is_last_wave()) return EndCalls();
    stage_ = Stage::kWriting;
  }

  // The thread that writes has come to its end, or wants the next wave.
  void HearOfWriting() {
    std::uint64_t count = 0;
    if (::read(done_.number(), &count, sizeof count) != static_cast<ssize_t>(sizeof count)) return;
    if (writing_ && written_.has_ended()) return Finish();
    if (written_.TakeWish() && stage_ == Stage::kWriting) BeginWave(wave_ + 1);
  }

  void Finish() {
    llvm::Expected<std::string> report = written_.Take();
    const Writing ended = *std::exchange(writing_, std::nullopt);
    std::optional<FailureText> failure;
    if (!report) failure = TakeFailure(report.takeError());
    for (std::size_t number = 0; number < ranks_.all.size(); ++number) {
      WriterRank& rank = ranks_.all[number];
      const std::uint64_t call = ended.numbers[number];
      Send(rank, failure ? SaveMessageKind::kFailed : SaveMessageKind::kDone,
           failure ? Encode(FailedMessage{call, failure->code, failure->message}) : Encode(DoneMessage{call, *report}));
    }
    if (!failure) kept_.Add(plain_files_, ended.path, ranks_.settings.keep);
    if (is_in_waves()) EndCalls();
    Proceed();
  }

  // The save that ranks have called has failed.
  void EndSave(llvm::Error error) {
    if (is_in_waves()) {  // The ranks hear of it when writing has ended.
      written_.GiveUp(std::move(error));
      return EndCalls();
    }
    ranks_.NoteMissed();
    Tell(Waiting::kForSave, std::move(error));
    EndCalls();
  }

  // The ranks may call another save, and some have.
  void EndCalls() {
    stage_ = Stage::kIdle;
    wave_ = 0;
    bool has_next = false;
    for (WriterRank& rank : ranks_.all) {
      rank.called = std::exchange(rank.next, std::nullopt);
      rank.has_staged = false;
      has_next = has_next || rank.called;
    }
    if (has_next) CountCalls();
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

  FileSystem& plain_files_;
  Descriptor listener_;
  Descriptor done_ = Descriptor(-1);  // An eventfd: a save has been written, or not.
  WriterRanks ranks_;
  WriterMemory memory_;
  WriterMachines machines_;
  std::unique_ptr<SocketRanks> writers_;  // Of a job on several machines.
  bool has_lost_machine_ = false;
  JoinedState joined_;
  bool is_laid_out_ = false;
  Stage stage_ = Stage::kIdle;
  std::size_t room_ = 0;    // Of the save that ranks have called.
  std::uint64_t wave_ = 0;  // Of the same, which is staged, or was last.
  std::optional<Writing> writing_;
  WriterClock::time_point deadline_;
  FailedMessage last_failed_;
  KeptCheckpoints kept_;
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
