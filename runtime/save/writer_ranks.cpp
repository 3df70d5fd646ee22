#include "runtime/save/writer_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/STLExtras.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr double kSecondsToConnect = 60;  // Ranks connect as soon as they know the address.
constexpr std::size_t kMostNamed = 8;     // Ranks in a message.

// The rank that came.
llvm::Expected<std::size_t> Join(MessageSocket socket, WriterRanks& ranks) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToConnect));
  const auto process = static_cast<std::uint64_t>(::getpid());
  UCP_RETURN_IF_ERROR(socket.Send(static_cast<std::uint64_t>(SaveMessageKind::kHello), EncodeNumber(process)));
  UCP_ASSIGN_OR_RETURN(const SocketMessage message, socket.Receive());
  UCP_ASSIGN_OR_RETURN(JoinMessage join, DecodeJoin(message.bytes));
  if (ranks.all.empty()) {
    ranks.all.resize(static_cast<std::size_t>(join.ranks));
    ranks.settings = join.settings;
  }
  if (static_cast<std::size_t>(join.ranks) != ranks.all.size()) {
    return Fail(ErrorCode::kIo, "ranks of two jobs came to one writer");
  }
  const auto number = static_cast<std::size_t>(join.rank);
  WriterRank& rank = ranks.all[number];
  if (rank.socket.is_open()) return Fail(ErrorCode::kIo, "rank {} came to the writer twice", number);
  rank.socket = std::move(socket);
  rank.state = std::move(join.state);
  rank.values = std::move(join.values);
  rank.process = join.process;
  rank.memories = std::move(join.memories);
  rank.abandoned = std::move(join.abandoned);
  rank.gone = std::move(join.problem);
  if (!rank.gone.empty() || Encode(join.settings) == Encode(ranks.settings)) return number;
  rank.gone = "its settings of the saver are others than those of the first rank that came";
  return number;
}

}  // namespace

bool WriterRanks::are_gone() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return !rank.gone.empty(); });
}

const WriterRank* WriterRanks::FirstGone() const {
  const auto gone = llvm::find_if(all, [](const WriterRank& rank) { return !rank.gone.empty(); });
  return gone == all.end() ? nullptr : &*gone;
}

bool WriterRanks::have_called() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return rank.called.has_value(); });
}

bool WriterRanks::have_staged() const {
  return llvm::all_of(all, [](const WriterRank& rank) { return rank.has_staged; });
}

std::string WriterRanks::TextOf(llvm::function_ref<bool(const WriterRank&)> wanted) const {
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number < all.size(); ++number) {
    if (wanted(all[number])) numbers.push_back(number);
  }
  if (numbers.size() > kMostNamed) {
    return fmt::format("rank {} and {} others of {}", numbers.front(), numbers.size() - 1, all.size());
  }
  return fmt::format("rank{} {} of {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "), all.size());
}

void Send(WriterRank& rank, SaveMessageKind kind, const std::string& bytes, int file) {
  if (!rank.socket.is_open()) return;
  llvm::consumeError(rank.socket.Send(static_cast<std::uint64_t>(kind), bytes, file));
}

llvm::Error GatherRanks(int listener, WriterRanks& ranks) {
  WriterClock::time_point until = AfterSeconds(kSecondsToConnect);
  std::size_t joined = 0;
  while (ranks.all.empty() || joined < ranks.all.size()) {
    pollfd wait{listener, POLLIN, 0};
    const int ready = ::poll(&wait, 1, MillisecondsUntil(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 && ranks.all.empty()) return llvm::Error::success();
    if (ready <= 0) {
      return Fail(ErrorCode::kIo, "{} did not come to the writer within {} s",
                  ranks.TextOf([](const WriterRank& rank) { return !rank.socket.is_open(); }),
                  ranks.settings.timeout_seconds);
    }
    UCP_ASSIGN_OR_RETURN(MessageSocket socket, AcceptOwn(listener));
    UCP_RETURN_IF_ERROR(Join(std::move(socket), ranks).takeError());
    if (++joined == 1) until = AfterSeconds(ranks.settings.timeout_seconds);
  }
  const WriterRank* other = ranks.FirstGone();
  if (other == nullptr) return llvm::Error::success();
  if (ranks.all.size() == 1) return MakeError(ErrorCode::kUsage, other->gone);
  return Fail(ErrorCode::kUsage, "rank {} of {}: {}", other - ranks.all.data(), ranks.all.size(), other->gone);
}

WriterClock::time_point AfterSeconds(double seconds) {
  return WriterClock::now() + std::chrono::duration_cast<WriterClock::duration>(std::chrono::duration<double>(seconds));
}

int MillisecondsUntil(WriterClock::time_point when) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(when - WriterClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 1 << 30));
}

}  // namespace ucp
