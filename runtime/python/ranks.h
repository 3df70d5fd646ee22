// The ranks of a job that Python knows: the job's own process group carries their messages.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

#include "runtime/comm/communicator.h"

namespace ucp {

// Made and destroyed with Python's lock held; the calls of a Communicator take it themselves.
class PythonRanks : public Communicator {
 public:
  // `all_gather` takes this rank's bytes and returns those of all, by rank. `deliver` takes a list of (rank, bytes to
  // send) and one of (rank, memory to fill), as memoryviews that are valid during the call. Both raise when a rank is
  // gone.
  PythonRanks(int rank, int size, nanobind::callable all_gather, nanobind::callable deliver,
              nanobind::callable ask_to_stop)
      : rank_(rank),
        size_(size),
        all_gather_(std::move(all_gather)),
        deliver_(std::move(deliver)),
        ask_to_stop_(std::move(ask_to_stop)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override;
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override;
  bool DeliversAllToAll() const override { return false; }
  void AskToStop() override;
  bool IsAskedToStop() override { return is_asked_to_stop_; }

  // Another rank has asked. Callable from any thread.
  void Stop() { is_asked_to_stop_ = true; }

 private:
  int rank_;
  int size_;
  nanobind::callable all_gather_;
  nanobind::callable deliver_;
  nanobind::callable ask_to_stop_;
  std::atomic<bool> is_asked_to_stop_ = false;
};

void AddRanksClass(nanobind::module_& module);

}  // namespace ucp
