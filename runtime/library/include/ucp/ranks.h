// The processes of a job that load together. A job has a way of speaking already; this is how it lends it to a load.
// <ucp/mpi.h> does so for MPI.
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

  virtual int rank() const = 0;  // From 0 on.
  virtual int size() const = 0;

  // The bytes of each rank, by rank; one may give none, and another one any number of bytes. Nobody goes on before all
  // have given theirs. Throws when a rank is gone.
  virtual std::vector<std::string> AllGather(const std::string& mine) = 0;

  // Gives bytes to some ranks, which may change when this returns, and takes what is expected of some; ranks without
  // anything for one another need not wait for one another. Bytes from one rank to another arrive in order, with as
  // many bytes as are expected there, or this throws. Returns whether it has done so, on all ranks alike.
  //
  // Each call of this library begins with one that has nothing to give and nothing to take. Where it returns false, as
  // here, everything goes through AllGather() to all, and this is not called again; where it returns true, a false
  // later is an error, since what was given is lost.
  virtual bool Deliver(std::span<const BytesToRank> sending, std::span<const BytesFromRank> receiving);

  // Asks all others to come to their next AllGather() soon, because this rank has failed. Where it does nothing, as
  // here, they come when they have read their parts.
  virtual void AskToStop();
  virtual bool IsAskedToStop();
};

}  // namespace v0
}  // namespace ucp
