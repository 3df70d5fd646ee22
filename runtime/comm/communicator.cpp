#include "runtime/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class OneRank : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    return std::vector<std::string>{mine};
  }
  void AskToStop() override {}
  bool IsAskedToStop() override { return false; }
};

// An outcome as bytes: nothing for success, else a letter for the code, and the message.
std::string Encode(llvm::Error error) {
  if (!error) return "";
  FailureText failure = TakeFailure(std::move(error));
  return static_cast<char>('A' + static_cast<int>(failure.code)) + failure.message;
}

// kIo, if it is none that there is.
ErrorCode CodeOf(const std::string& outcome) {
  const int code = outcome.front() - 'A';
  const bool is_one = code >= 0 && code <= static_cast<int>(ErrorCode::kCancelled);
  return is_one ? static_cast<ErrorCode>(code) : ErrorCode::kIo;
}

llvm::Error Decode(const std::string& outcome) {
  return outcome.empty() ? llvm::Error::success() : MakeError(CodeOf(outcome), outcome.substr(1));
}

std::string EncodeSize(std::uint64_t bytes) { return {reinterpret_cast<const char*>(&bytes), sizeof(bytes)}; }

// So many sizes, one behind the other, as a rank tells them to all.
llvm::Expected<std::vector<std::uint64_t>> DecodeSizes(const std::string& text, std::size_t count,
                                                       std::size_t of_rank) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  std::vector<std::uint64_t> sizes(count);
  const bool has_all = text.size() == count * sizeof(std::uint64_t);
  if (has_all) std::memcpy(sizes.data(), text.data(), text.size());
  if (has_all && std::ranges::all_of(sizes, [](std::uint64_t size) { return size <= kMost; })) return sizes;
  return Fail(ErrorCode::kIo, "rank {} says nothing sensible of how much it sends; all ranks must run the same ucp",
              of_rank);
}

void AddNumber(std::uint64_t number, std::string& text) {
  text.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::uint64_t TakeNumber(std::string_view& text) {
  std::uint64_t number = 0;
  const std::size_t bytes = std::min(text.size(), sizeof(number));
  std::memcpy(&number, text.data(), bytes);
  text.remove_prefix(bytes);
  return number;
}

// One behind the other: for how many ranks, for which, how many bytes, and these. Bytes for several ranks are there
// once.
std::string Encode(std::span<const Outgoing> sending) {
  std::string all;
  for (std::size_t first = 0, end = 0; first < sending.size(); first = end) {
    const std::span<const std::byte> bytes = sending[first].bytes;
    while (end < sending.size() && sending[end].bytes.data() == bytes.data() &&
           sending[end].bytes.size() == bytes.size()) {
      ++end;
    }
    AddNumber(end - first, all);
    for (std::size_t i = first; i < end; ++i) AddNumber(static_cast<std::uint64_t>(sending[i].to), all);
    AddNumber(bytes.size(), all);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

// The part of it that is for `rank`.
std::vector<std::string_view> DecodeSent(std::string_view all, int rank) {
  std::vector<std::string_view> found;
  while (!all.empty()) {
    std::size_t times = 0;
    for (std::uint64_t left = TakeNumber(all); left > 0 && !all.empty(); --left) {
      if (TakeNumber(all) == static_cast<std::uint64_t>(rank)) ++times;
    }
    const std::uint64_t size = TakeNumber(all);
    const std::string_view bytes = all.substr(0, size);
    all.remove_prefix(bytes.size());
    found.insert(found.end(), times, bytes);
  }
  return found;
}

}  // namespace

llvm::Error Communicator::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(Encode(sending)));
  std::vector<std::vector<std::string_view>> from(all.size());
  for (std::size_t sender = 0; sender < all.size(); ++sender) from[sender] = DecodeSent(all[sender], rank());
  std::vector<std::size_t> taken(all.size());
  for (const Incoming& one : receiving) {
    const auto sender = static_cast<std::size_t>(one.from);
    const bool is_there = taken[sender] < from[sender].size();
    const std::string_view bytes = is_there ? from[sender][taken[sender]++] : std::string_view();
    UCP_RETURN_IF_ERROR(CheckDelivered(one, bytes.size()));
    std::ranges::copy(std::as_bytes(std::span(bytes)), one.bytes.begin());
  }
  return llvm::Error::success();
}

llvm::Error CheckDelivered(const Incoming& expected, std::uint64_t bytes) {
  if (bytes == expected.bytes.size()) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "rank {} gives {} bytes where {} are expected of it; all ranks must run the same ucp",
              expected.from, bytes, expected.bytes.size());
}

llvm::Error Communicator::Send(int to, int, std::span<const std::byte>) {
  UCP_CHECK(false, "a message to rank {} of {}, which have none", to, size());
}

llvm::Error Communicator::Receive(int from, int, std::span<std::byte>) {
  UCP_CHECK(false, "a message from rank {} of {}, which have none", from, size());
}

llvm::Expected<std::optional<Message>> Communicator::TakeAny(int) { return std::nullopt; }

Communicator& SingleProcess() {
  static OneRank single;
  return single;
}

llvm::Expected<std::string> FromFirstRank(Communicator& ranks, const std::string& mine) {
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks.AllGather(ranks.rank() == 0 ? mine : ""));
  return std::move(all.front());
}

// All ranks get the sizes, so that all see the same ones that make no sense; what comes of the delivery may differ from
// rank to rank, and so they agree on it. Then no rank goes on alone.
llvm::Expected<std::vector<std::string>> ToFirstRank(Communicator& ranks, const std::string& mine) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> encoded, ranks.AllGather(EncodeSize(mine.size())));
  std::vector<std::uint64_t> sizes;
  for (std::size_t from = 0; from < encoded.size(); ++from) {
    UCP_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> size, DecodeSizes(encoded[from], 1, from));
    sizes.push_back(size.front());
  }
  std::vector<Outgoing> sending;
  std::vector<Incoming> receiving;
  std::vector<std::string> all;
  if (ranks.rank() != 0) {
    if (!mine.empty()) sending.push_back({0, std::as_bytes(std::span(mine))});
  } else {
    for (std::uint64_t size : sizes) all.emplace_back(all.empty() ? mine : std::string(size, '\0'));
    for (int from = 1; from < ranks.size(); ++from) {
      std::string& bytes = all[static_cast<std::size_t>(from)];
      if (!bytes.empty()) receiving.push_back({from, std::as_writable_bytes(std::span(bytes))});
    }
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, ranks.Deliver(sending, receiving)));
  return all;
}

llvm::Expected<std::string> FromFirstRankToEach(Communicator& ranks, std::span<const std::string* const> of_ranks) {
  std::string encoded;
  for (const std::string* one : of_ranks) encoded += EncodeSize(one->size());
  UCP_ASSIGN_OR_RETURN(encoded, FromFirstRank(ranks, encoded));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> sizes,
                       DecodeSizes(encoded, static_cast<std::size_t>(ranks.size()), 0));
  std::vector<Outgoing> sending;
  std::vector<Incoming> receiving;
  std::string mine;
  if (ranks.rank() == 0) {
    mine = *of_ranks.front();
    for (std::size_t to = 1; to < of_ranks.size(); ++to) {
      if (!of_ranks[to]->empty()) sending.push_back({static_cast<int>(to), std::as_bytes(std::span(*of_ranks[to]))});
    }
  } else {
    mine.resize(sizes[static_cast<std::size_t>(ranks.rank())]);
    if (!mine.empty()) receiving.push_back({0, std::as_writable_bytes(std::span(mine))});
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, ranks.Deliver(sending, receiving)));
  return mine;
}

llvm::Error OutcomeOfFirstRank(Communicator& ranks, llvm::Error mine) {
  if (ranks.size() == 1) return mine;
  UCP_ASSIGN_OR_RETURN(std::string outcome, FromFirstRank(ranks, Encode(std::move(mine))));
  return Decode(outcome);
}

llvm::Error Agree(Communicator& ranks, llvm::Error mine) {
  if (ranks.size() == 1) return mine;
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> outcomes, ranks.AllGather(Encode(std::move(mine))));
  std::optional<std::size_t> worst;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) continue;
    bool outranks =
        worst && CodeOf(outcomes[*worst]) == ErrorCode::kCancelled && CodeOf(outcomes[rank]) != ErrorCode::kCancelled;
    if (!worst || outranks) worst = rank;
  }
  if (!worst) return llvm::Error::success();
  const std::string& outcome = outcomes[*worst];
  if (CodeOf(outcome) == ErrorCode::kCancelled) return Decode(outcome);
  return Fail(CodeOf(outcome), "{} {} of {}: {}", ranks.noun(), *worst, ranks.size(), outcome.substr(1));
}

}  // namespace ucp
