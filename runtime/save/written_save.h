// A save that is being written: on a thread of its own, which the writer's loop hears of by a descriptor.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/comm/message_socket.h"
#include "runtime/save/save_messages.h"
#include "runtime/save/segment_files.h"
#include "runtime/save_run/save_run.h"

namespace ucp {

class WrittenSave {
 public:
  struct Job {
    const JoinedState* state = nullptr;  // Null but at the first writer.
    const SaverSettings& settings;
    std::string path;
    std::string tag;
    bool force = false;
    Communicator* writers = nullptr;
    std::uint64_t staged_bytes = 0;  // Of this machine's segments, which count as this process's.
    StagingWaves waves = {};
  };

  WrittenSave() = default;
  ~WrittenSave();
  WrittenSave(const WrittenSave&) = delete;

  // All must outlive Take(). `done` becomes readable at the end, and at the first writer each time that the next wave
  // is wanted.
  void Start(SegmentFiles& files, Job job, int done);
  bool is_running() const { return thread_.joinable(); }
  bool has_ended() const { return has_ended_; }
  // Whether the next wave is wanted; once for each.
  bool TakeWish() { return wants_wave_.exchange(false); }
  // It is in the segments.
  void GoOn();
  void Cancel();
  void GiveUp(llvm::Error why);  // It ends with this error.
  // Waits for the end: the report, as JSON.
  llvm::Expected<std::string> Take();

 private:
  [[nodiscard]] llvm::Error Write(SegmentFiles& files, const Job& job, int done, std::string& report);
  [[nodiscard]] llvm::Error WaitForWave(std::uint64_t wave);

  std::thread thread_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> wants_wave_ = false;
  std::mutex mutex_;  // Protects the next one.
  std::uint64_t wave_ = 0;
  std::condition_variable changed_;
  std::optional<FailureText> given_up_;
  std::optional<llvm::Expected<std::string>> outcome_;
};

}  // namespace ucp
