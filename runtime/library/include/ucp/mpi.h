// The ranks of an MPI communicator, for LoadSettings::ranks. Compiled with the MPI of the program that includes it, so
// that the library needs none.
#pragma once

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ucp/error.h"
#include "ucp/ranks.h"

namespace ucp {
inline namespace v0 {

// Use it between MPI_Init() and MPI_Finalize(), on the thread that called MPI_Init(), or on any thread if MPI allows
// several.
class MpiRanks : public Ranks {
 public:
  // All ranks of `job` make one together. Its messages are kept apart from the job's own.
  explicit MpiRanks(MPI_Comm job = MPI_COMM_WORLD) {
    Check(MPI_Comm_dup(job, &communicator_), "copy a communicator");
    Check(MPI_Comm_rank(communicator_, &rank_), "find a rank");
    Check(MPI_Comm_size(communicator_, &size_), "count the ranks");
  }
  ~MpiRanks() override { MPI_Comm_free(&communicator_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> AllGather(const std::string& mine) override {
    const std::uint64_t bytes = mine.size();
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size_));
    std::vector<MPI_Request> request(1, MPI_REQUEST_NULL);
    Check(MPI_Iallgather(&bytes, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, communicator_, request.data()),
          "gather");
    Wait(request);
    std::vector<std::string> all(sizes.size());
    for (int from = 0; from < size_; ++from) {
      std::string& text = all[static_cast<std::size_t>(from)];
      text = from == rank_ ? mine : std::string(sizes[static_cast<std::size_t>(from)], '\0');
      for (std::size_t done = 0; done < text.size(); done += kMostBytes) {
        const auto count = static_cast<int>(std::min(kMostBytes, text.size() - done));
        Check(MPI_Ibcast(text.data() + done, count, MPI_BYTE, from, communicator_, request.data()), "gather");
        Wait(request);
      }
    }
    ++gathers_;
    return all;
  }

  bool Deliver(std::span<const BytesToRank> sending, std::span<const BytesFromRank> receiving) override {
    std::vector<MPI_Request> requests;
    std::uint64_t expected = 0;
    for (const BytesFromRank& one : receiving) {
      Start(requests, one.bytes, one.from, communicator_, MPI_Irecv);
      expected += one.bytes.size();
    }
    const std::size_t receives = requests.size();
    for (const BytesToRank& one : sending) Start(requests, one.bytes, one.to, communicator_, MPI_Isend);
    const std::vector<MPI_Status> statuses = Wait(requests);
    for (std::size_t request = 0; request < receives; ++request) {
      int count = 0;
      Check(MPI_Get_count(&statuses[request], MPI_BYTE, &count), "deliver");
      expected -= static_cast<std::uint64_t>(count);
    }
    if (expected == 0) return true;  // MPI itself refuses more than that.
    throw Error(ErrorKind::kIo,
                "other ranks give " + std::to_string(expected) + " bytes less than are expected of them");
  }

  // Messages that are never received. Each holds until the next AllGather(), and later loads do not see it.
  void AskToStop() override {
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      Check(MPI_Isend(nullptr, 0, MPI_BYTE, other, StopTag(), communicator_, &request), "send");
      Check(MPI_Request_free(&request), "send");
    }
  }

  bool IsAskedToStop() override {
    int asked = 0;
    Check(MPI_Iprobe(MPI_ANY_SOURCE, StopTag(), communicator_, &asked, MPI_STATUS_IGNORE), "look for messages");
    return asked != 0;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  static constexpr int kDelivery = 1;  // Greater ones ask to stop.

  int StopTag() const { return kDelivery + 1 + static_cast<int>(gathers_ % 32'000); }  // MPI has 32,767 at least.

  // Linux may let a thread sleep for 50 microseconds more than it asked for, unless it says otherwise.
  class ExactSleeps {
   public:
    ExactSleeps() : slack_(::prctl(PR_GET_TIMERSLACK)) { ::prctl(PR_SET_TIMERSLACK, 1000UL); }
    ExactSleeps(const ExactSleeps&) = delete;
    ExactSleeps& operator=(const ExactSleeps&) = delete;
    ~ExactSleeps() { ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_)); }

   private:
    int slack_;
  };

  // Starts one for each GiB: MPI counts in ints.
  template <typename Bytes, typename Begin>
  static void Start(std::vector<MPI_Request>& requests, Bytes bytes, int rank, MPI_Comm communicator, Begin begin) {
    for (std::size_t done = 0; done < bytes.size(); done += kMostBytes) {
      const auto count = static_cast<int>(std::min(kMostBytes, bytes.size() - done));
      requests.push_back(MPI_REQUEST_NULL);
      Check(begin(bytes.data() + done, count, MPI_BYTE, rank, kDelivery, communicator, &requests.back()), "deliver");
    }
  }

  // MPI's own waiting takes a processor, which threads that read need. Bytes that come soon come in many parts, each of
  // which waits for both sides to look; bytes that come later are the work of another rank.
  static std::vector<MPI_Status> Wait(std::vector<MPI_Request>& requests) {
    constexpr int kLooks = 200;
    constexpr int kShortSleeps = 2000;
    const ExactSleeps exact;
    std::vector<MPI_Status> statuses(requests.size());
    for (int looks = 0, is_done = 0;; ++looks) {
      Check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, statuses.data()), "wait");
      if (is_done != 0) return statuses;
      if (looks < kLooks) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(looks < kLooks + kShortSleeps ? 10 : 500));
    }
  }

  // MPI ends all ranks by itself, unless the job has told it otherwise.
  static void Check(int code, const char* action) {
    if (code == MPI_SUCCESS) return;
    throw Error(ErrorKind::kIo, std::string("cannot ") + action + " through MPI: error " + std::to_string(code));
  }

  std::uint64_t gathers_ = 0;  // All ranks count the same.
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace v0
}  // namespace ucp
