// The processes of a job that load together. A job has a way of speaking already; this is how it lends it to a load.
// <ucp/mpi.h> does so for MPI.
#pragma once

#include <string>
#include <vector>

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

// All ranks make the same calls of this library in the same order, and in each the library makes the same calls of
// this class, from the thread that called it. What an implementation throws is what the library's call throws on that
// rank.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks();

  virtual int rank() const = 0;  // From 0 on.
  virtual int size() const = 0;

  // What each rank gives, by rank; a rank may give nothing, or some 16 MiB. Nobody goes on before all have given
  // theirs. Throws when a rank is gone.
  virtual std::vector<std::string> AllGather(const std::string& mine) = 0;

  // Asks all others to come to their next AllGather() soon, because this rank has failed. Where it does nothing, as
  // here, they come when they have read their parts.
  virtual void AskToStop();
  virtual bool IsAskedToStop();
};

}  // namespace v0
}  // namespace ucp
