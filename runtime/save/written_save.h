// A save that is being written: on a thread of its own, which the writer's loop hears of by a descriptor.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "runtime/comm/message_socket.h"
#include "runtime/save/segment_files.h"
#include "runtime/save_run/save_run.h"

namespace ucp {

class WrittenSave {
 public:
  struct Job {
    const JoinedState* state;  // Null but at the first writer.
    SaveRequest request;
    ConversionOptions destination;
    ExecutionOptions execution;
  };

  WrittenSave() = default;
  ~WrittenSave();
  WrittenSave(const WrittenSave&) = delete;

  // All must outlive Take(). `done` becomes readable at the end.
  void Start(SegmentFiles& files, Job job, int done);
  bool is_running() const { return thread_.joinable(); }
  void Cancel() { cancelled_ = true; }
  // Waits for the end: the report, as JSON.
  llvm::Expected<std::string> Take();

 private:
  std::thread thread_;
  std::atomic<bool> cancelled_ = false;
  std::optional<llvm::Expected<std::string>> outcome_;
};

}  // namespace ucp
