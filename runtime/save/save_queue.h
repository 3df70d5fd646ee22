// The saves that a rank has called, from the call until they have ended: its callers wait for them, and the thread of
// its client takes them one after another.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "runtime/job_state/job_state.h"
#include "runtime/save/stage.h"

namespace ucp {

struct SaveCall {
  std::string path;
  std::string tag;
  bool force = false;
  std::string values;  // As in SaveMessage, and so is the next.
  std::string problem;
  std::optional<HeldState> state;  // If it is another one than before; then `memories` too.
  std::optional<BoxMemories> memories;
};

// How far a save has come, on this rank.
enum class SaveStep {
  kWaiting,  // For the other ranks, or for an earlier save.
  kStaging,  // The segment is this rank's to fill. Boxes without an address are the caller's to stage.
  kStaged,   // The state may change.
  kDone,     // The checkpoint is complete, or the save has failed.
};

class SaveQueue {
 public:
  // Fails (kIo) where the system does. Before any other call.
  [[nodiscard]] llvm::Error Open();

  // For callers, on any thread. Returns the save's number, at once.
  std::uint64_t Add(SaveCall call);
  void FinishStaging(std::uint64_t number, const std::string& problem);
  llvm::Expected<bool> WaitFor(std::uint64_t number, SaveStep step, double seconds);
  // Until this wave is the caller's to stage, or it has passed.
  llvm::Expected<bool> WaitForWave(std::uint64_t number, std::uint64_t wave, double seconds);
  std::string ReportOf(std::uint64_t number) const;
  void Close();  // Nothing more is added.

  // For the client's thread. Becomes readable when a save is added, or the queue is closed.
  int news() const { return news_.number(); }
  void ClearNews();
  struct Taken {
    std::uint64_t number = 0;
    SaveCall call;
  };
  std::optional<Taken> Take();  // The next one, if there is one.
  bool is_closed() const;       // And all have been taken.
  // The save is at kStaging, with this wave. With `waits_for_caller`, until FinishStaging().
  void BeginStaging(std::uint64_t number, std::uint64_t wave, bool waits_for_caller);
  std::string WaitForCaller(std::uint64_t number);  // Returns the problem that the caller had; empty: none.
  void HasStaged(std::uint64_t number);
  void Finish(std::uint64_t number, std::string report);
  void Fail(std::uint64_t number, FailureText failure);

 private:
  struct Save {
    SaveStep step = SaveStep::kWaiting;
    std::uint64_t wave = 0;
    bool waits_for_caller = false;
    std::string problem;  // Of the caller's staging.
    std::string report;
    std::optional<FailureText> failure;
  };

  llvm::Expected<bool> WaitUntil(std::uint64_t number, double seconds, llvm::function_ref<bool(const Save&)> reached);
  void Tell() const;
  void DropOldReports();

  Descriptor news_ = Descriptor(-1);  // An eventfd.
  mutable std::mutex mutex_;          // Protects what follows.
  std::condition_variable changed_;
  std::map<std::uint64_t, Save> saves_;  // By number.
  std::deque<Taken> waiting_;
  std::uint64_t last_number_ = 0;
  bool is_closing_ = false;
};

}  // namespace ucp
