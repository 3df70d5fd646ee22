#include "runtime/save/written_save.h"

#include <unistd.h>

#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/job_state/job_items.h"

namespace ucp {
namespace {

void Tell(int done) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(done, &one, sizeof one);  // An eventfd takes it always.
}

}  // namespace

WrittenSave::~WrittenSave() {
  if (!thread_.joinable()) return;
  Cancel();
  llvm::consumeError(Take().takeError());
}

void WrittenSave::Start(SegmentFiles& files, Job job, int done) {
  cancelled_ = false;
  has_ended_ = false;
  wants_wave_ = false;
  wave_ = 0;
  files.SetWave(0);
  thread_ = std::thread([this, &files, job = std::move(job), done] {
    HeedInterrupts(&cancelled_);
    std::string report;
    llvm::Error error = WithinMemory([&] { return Write(files, job, done, report); });
    if (error) {
      outcome_.emplace(std::move(error));
    } else {
      outcome_.emplace(std::move(report));
    }
    has_ended_ = true;
    Tell(done);
  });
}

llvm::Error WrittenSave::Write(SegmentFiles& files, const Job& job, int done, std::string& report) {
  SaveRequest request = job.settings.request;
  request.settings.tag = job.tag;
  ConversionOptions destination;
  destination.destination = job.path;
  destination.force = job.force;
  destination.node_local.destination = job.settings.node_local;
  ExecutionOptions execution;
  execution.threads = job.settings.threads;
  execution.memory_bytes = job.settings.memory_bytes + job.staged_bytes;
  execution.ranks = job.writers;
  execution.cancelled = &cancelled_;
  SourceWaves waves;
  waves.count = job.waves.count;
  waves.wave_of = [&](const StoredFile& file, std::uint64_t offset) -> std::optional<std::uint64_t> {
    return IsSegmentName(file.path) ? std::optional(job.waves.WaveOf(offset)) : std::nullopt;
  };
  waves.next = [&](std::uint64_t wave) -> llvm::Error {
    if (job.state != nullptr) {
      wants_wave_ = true;
      Tell(done);
      UCP_RETURN_IF_ERROR(WaitForWave(wave));
    }
    files.SetWave(wave);
    return llvm::Error::success();
  };
  if (waves.count > 1) execution.waves = &waves;
  UCP_ASSIGN_OR_RETURN(const SaveReport saved, SaveTogether(files, job.state, request, destination, execution));
  report = ReportText(saved, destination);
  return llvm::Error::success();
}

llvm::Error WrittenSave::WaitForWave(std::uint64_t wave) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wave_ >= wave || cancelled_; });
  return cancelled_ ? Fail(ErrorCode::kCancelled, "interrupted") : llvm::Error::success();
}

void WrittenSave::GoOn() {
  std::lock_guard lock(mutex_);
  ++wave_;
  changed_.notify_all();
}

void WrittenSave::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void WrittenSave::GiveUp(llvm::Error why) {
  given_up_ = TakeFailure(std::move(why));
  Cancel();
}

llvm::Expected<std::string> WrittenSave::Take() {
  thread_.join();
  llvm::Expected<std::string> outcome = std::move(*outcome_);
  outcome_.reset();
  const std::optional<FailureText> why = std::exchange(given_up_, std::nullopt);
  if (outcome || !why) return outcome;
  llvm::consumeError(outcome.takeError());
  return MakeError(why->code, why->message);
}

}  // namespace ucp
