// The processes of a job that load together. A job already exchanges messages in some way; by this class it lends that
// way to a load. <ucp/mpi.h> does so for MPI.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

// The bytes that a rank sends to another one, and the place for those that it receives. None is empty.
struct BytesToRank {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct BytesFromRank {
  int from = 0;
  std::span<std::byte> bytes;
};

// All ranks make the same calls of this library in the same order, and in each the library makes the same calls of this
// class, from the thread that called it. An exception of an implementation is thrown by the library's call on that
// rank.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks();

  virtual int rank() const = 0;  // This process's number, from 0 on.
  virtual int size() const = 0;

  // Returns the bytes of each rank, by rank; ranks may give none, or different numbers of bytes. It returns only after
  // all ranks have given theirs. Throws if a rank is gone.
  virtual std::vector<std::string> AllGather(const std::string& mine) = 0;

  // Sends bytes to some ranks and receives bytes of some; the sent memory may change when this returns. Ranks without
  // bytes for one another need not wait for one another. Bytes from one rank to another arrive in order, and as many as
  // are expected there, or this throws. Returns whether it has done so, on all ranks alike.
  //
  // Each call of this library begins with a Deliver() of nothing. If that returns false, as the default does, all bytes
  // go through AllGather() to all ranks, and this is not called again. If it returns true, a later false is an error,
  // since the bytes are lost.
  virtual bool Deliver(std::span<const BytesToRank> sending, std::span<const BytesFromRank> receiving);

  // Asks all others to come to their next AllGather() soon, because this rank has failed. If it does nothing, as the
  // default, they come when they have read their parts.
  virtual void AskToStop();
  virtual bool IsAskedToStop();  // Whether another rank has called AskToStop().
};

}  // namespace v0
}  // namespace ucp
