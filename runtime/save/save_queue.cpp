#include "runtime/save/save_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr std::uint64_t kKeptReports = 64;  // Of the newest saves.

}  // namespace

llvm::Error SaveQueue::Open() {
  news_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news_.is_open()) return ucp::Fail(ErrorCode::kIo, "eventfd: {}", SystemReason(errno));
  return llvm::Error::success();
}

void SaveQueue::Tell() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(news_.number(), &one, sizeof one);  // An eventfd takes it always.
}

void SaveQueue::ClearNews() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(news_.number(), &count, sizeof count);  // There may be nothing new.
}

std::uint64_t SaveQueue::Add(SaveCall call) {
  std::lock_guard lock(mutex_);
  const std::uint64_t number = ++last_number_;
  saves_[number];
  waiting_.push_back({number, std::move(call)});
  Tell();
  return number;
}

void SaveQueue::Close() {
  std::lock_guard lock(mutex_);
  is_closing_ = true;
  Tell();
}

bool SaveQueue::is_closed() const {
  std::lock_guard lock(mutex_);
  return is_closing_ && waiting_.empty();
}

std::optional<SaveQueue::Taken> SaveQueue::Take() {
  std::lock_guard lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  Taken taken = std::move(waiting_.front());
  waiting_.pop_front();
  return taken;
}

llvm::Expected<bool> SaveQueue::WaitFor(std::uint64_t number, SaveStep step, double seconds) {
  return WaitUntil(number, seconds, [&](const Save& save) { return save.step >= step; });
}

llvm::Expected<bool> SaveQueue::WaitForWave(std::uint64_t number, std::uint64_t wave, double seconds) {
  return WaitUntil(number, seconds, [&](const Save& save) {
    return save.step > SaveStep::kStaging || (save.step == SaveStep::kStaging && save.wave >= wave);
  });
}

llvm::Expected<bool> SaveQueue::WaitUntil(std::uint64_t number, double seconds,
                                          llvm::function_ref<bool(const Save&)> reached) {
  std::unique_lock lock(mutex_);
  const auto found = saves_.find(number);
  if (found == saves_.end()) return ucp::Fail(ErrorCode::kUsage, "there is no save number {}", number);
  const Save& save = found->second;
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return reached(save); });
  if (save.failure) return MakeError(save.failure->code, save.failure->message);
  return reached(save);
}

std::string SaveQueue::ReportOf(std::uint64_t number) const {
  std::lock_guard lock(mutex_);
  return saves_.at(number).report;
}

void SaveQueue::BeginStaging(std::uint64_t number, std::uint64_t wave, bool waits_for_caller) {
  std::lock_guard lock(mutex_);
  Save& save = saves_.at(number);
  save.wave = wave;
  save.waits_for_caller = waits_for_caller;
  save.step = SaveStep::kStaging;
  changed_.notify_all();
}

void SaveQueue::FinishStaging(std::uint64_t number, const std::string& problem) {
  std::lock_guard lock(mutex_);
  Save& save = saves_.at(number);
  save.waits_for_caller = false;
  save.problem = problem;
  changed_.notify_all();
}

std::string SaveQueue::WaitForCaller(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const Save& save = saves_.at(number);
  changed_.wait(lock, [&] { return !save.waits_for_caller; });
  return save.problem;
}

void SaveQueue::HasStaged(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  saves_.at(number).step = SaveStep::kStaged;
  changed_.notify_all();
}

void SaveQueue::Finish(std::uint64_t number, std::string report) {
  std::lock_guard lock(mutex_);
  Save& save = saves_.at(number);
  save.report = std::move(report);
  save.step = SaveStep::kDone;
  DropOldReports();
  changed_.notify_all();
}

void SaveQueue::Fail(std::uint64_t number, FailureText failure) {
  std::lock_guard lock(mutex_);
  Save& save = saves_.at(number);
  save.failure = std::move(failure);
  save.step = SaveStep::kDone;
  changed_.notify_all();
}

// A job may save for months.
void SaveQueue::DropOldReports() {
  for (auto save = saves_.begin(); save != saves_.end(); ++save) {
    if (save->first + kKeptReports >= last_number_) break;
    if (save->second.step == SaveStep::kDone) save->second.report = "{}";
  }
}

}  // namespace ucp
