// The processes of one run, which are its ranks, and what they tell one another. Threads of one process share memory
// and need none of this.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ucp {

struct Message {
  int from = 0;
  std::string bytes;
};

// The bytes that one rank sends to another one, and the place where they are received. None is empty.
struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;
};

// Every rank makes the same calls in the same order, from one thread at a time; messages go beside them, whenever one
// rank has something to say to another. A rank that dies ends the run of all.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For messages: "rank 1 of 4", "machine 1 of 3".
  virtual const char* noun() const { return "rank"; }

  // Returns the bytes of each rank, by rank; a rank may give none. Nobody goes on before all have given theirs.
  virtual llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) = 0;

  // Each rank gives bytes to some others and takes the bytes that it expects of some. Bytes from one rank to another
  // arrive in order, as many as are expected there, else it is an error (kIo). Bytes that were given may change when
  // this returns. Ranks without anything for one another need not wait for one another. Made of AllGather(), through
  // which everything goes to all, unless an implementation knows better.
  [[nodiscard]] virtual llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving);
  // Returns whether each rank holds for a moment the bytes that all ranks give in a Deliver(), and not only its own.
  virtual bool DeliversAllToAll() const { return true; }

  // Returns whether calls and messages fail (kIo) once another rank has died. Else the death of one ends all processes.
  virtual bool FailsWhenARankDies() const { return false; }

  // Asks all other ranks to come to their next AllGather() soon, because this one has failed or was cancelled.
  virtual void AskToStop() = 0;
  virtual bool IsAskedToStop() = 0;
  // Makes what ranks asked for no longer count, for work that begins after a gathering that all came to.
  virtual void ForgetStop() {}

  // Messages, from and to any thread, if this is so; else nobody sends, and nobody waits for one. Those of one sender,
  // receiver and tag come in the order in which they were sent. Tags are numbers below kTags.
  static constexpr int kTags = 1024;
  static constexpr int kWatchTag = kTags - 1;  // For the ranks' watch alone (rank_watch.h).
  virtual bool has_messages() const { return false; }
  // `bytes` may change when this returns. `to` is another rank.
  [[nodiscard]] virtual llvm::Error Send(int to, int tag, std::span<const std::byte> bytes);
  // Waits for the next message of this rank with this tag, which must have as many bytes.
  [[nodiscard]] virtual llvm::Error Receive(int from, int tag, std::span<std::byte> buffer);
  // Returns the next message of any rank with this tag, if one has come; it has 16 KiB at most.
  virtual llvm::Expected<std::optional<Message>> TakeAny(int tag);
};

// Whether the received bytes have the expected size.
[[nodiscard]] llvm::Error CheckDelivered(const Incoming& expected, std::uint64_t bytes);

// Returns a run of this process alone.
Communicator& SingleProcess();

// Returns the bytes of rank 0.
llvm::Expected<std::string> FromFirstRank(Communicator& ranks, const std::string& mine);

// Returns the bytes of each rank, by rank, at rank 0; nothing elsewhere.
llvm::Expected<std::vector<std::string>> ToFirstRank(Communicator& ranks, const std::string& mine);

// Returns the bytes that rank 0 has for each rank, by rank.
llvm::Expected<std::string> FromFirstRankToEach(Communicator& ranks, std::span<const std::string* const> of_ranks);

// The outcome of something that rank 0 alone does, on every rank.
[[nodiscard]] llvm::Error OutcomeOfFirstRank(Communicator& ranks, llvm::Error mine);

// The outcome of all: success, or on every rank the same error, that of the lowest rank that has one, which is named if
// there are several ranks. Where some were cancelled and others failed, it is a failure.
[[nodiscard]] llvm::Error Agree(Communicator& ranks, llvm::Error mine);

}  // namespace ucp
