#include "runtime/comm/rank_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/ongoing_calls.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kTag = Communicator::kWatchTag;
constexpr milliseconds kBeat(250);
constexpr std::string_view kBye = "bye";    // The rank has nothing to do any more.
constexpr std::string_view kEnds = "ends";  // It ends the run, and says why.

// Where the process of a rank runs. Numbers of processes mean something within one namespace of one boot.
struct RankPlace {
  std::string host;
  std::string process_space;
  int process = 0;
};

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

RankPlace OwnPlace() {
  std::array<char, 256> host{};
  [[maybe_unused]] const int named = ::gethostname(host.data(), host.size() - 1);
  std::array<char, 64> space{};
  [[maybe_unused]] const ssize_t length = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return {host.data(), FirstLine("/proc/sys/kernel/random/boot_id") + space.data(), ::getpid()};
}

std::string TextOf(const RankPlace& place) {
  return fmt::format("{}\n{}\n{}", place.process, place.process_space, place.host);
}

RankPlace PlaceOf(const std::string& text) {
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first + 1);
  return {text.substr(second + 1), text.substr(first + 1, second - first - 1), std::stoi(text)};
}

// Becomes readable when the process ends. Not open where the system does not have such a thing.
class ProcessEnd {
 public:
  explicit ProcessEnd(int process) : number_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}
  ~ProcessEnd() {
    if (number_ >= 0) ::close(number_);
  }
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

  bool HasCome() const {
    pollfd one{number_, POLLIN, 0};
    return number_ >= 0 && ::poll(&one, 1, 0) == 1;
  }

 private:
  const int number_;
};

// Time that passes while this process runs: a job that is stopped and continued as a whole was not waiting.
class AwakeTime {
 public:
  milliseconds SinceLast() {
    const Clock::time_point now = Clock::now();
    const auto passed = std::chrono::duration_cast<milliseconds>(now - std::exchange(last_, now));
    return std::min(passed, kBeat);
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// The longest call of the file system that this process is in.
class LongestCall {
 public:
  // "reading `x`" and for how long; nothing before it was seen twice.
  std::pair<std::string, milliseconds> After(milliseconds passed) {
    std::map<std::uint64_t, milliseconds> seen;
    std::pair<std::string, milliseconds> longest;
    for (OngoingCall& call : OngoingCalls()) {
      auto before = seen_.find(call.number);
      const milliseconds lasts = before == seen_.end() ? milliseconds(0) : before->second + passed;
      if (longest.first.empty() || lasts > longest.second) longest = {std::move(call.text), lasts};
      seen.emplace(call.number, lasts);
    }
    seen_ = std::move(seen);
    return longest;
  }

 private:
  std::map<std::uint64_t, milliseconds> seen_;
};

// A beat is "MILLISECONDS TEXT": the call that the rank is in, and for how long.
std::string Beat(const std::pair<std::string, milliseconds>& call) {
  return fmt::format("{} {}", call.second.count(), call.first.substr(0, 4 * PATH_MAX / 5));
}

}  // namespace

class RankWatch::Watching {
 public:
  Watching(Communicator& ranks, RankPatience patience, std::vector<RankPlace> places,
           std::function<void(const std::string&)> end)
      : ranks_(ranks), patience_(std::move(patience)), places_(std::move(places)), end_(std::move(end)) {
    const RankPlace& own = places_[Index(ranks_.rank())];
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const RankPlace& place = places_[Index(rank)];
      if (rank == ranks_.rank() || place.process_space != own.process_space || place.host != own.host) continue;
      neighbours_.emplace(rank, std::make_unique<ProcessEnd>(place.process));
    }
    thread_ = std::thread([this] { Run(); });
  }

  ~Watching() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    wakes_.notify_all();
    thread_.join();
  }

 private:
  static std::size_t Index(int rank) { return static_cast<std::size_t>(rank); }
  int previous() const { return (ranks_.rank() + ranks_.size() - 1) % ranks_.size(); }
  int next() const { return (ranks_.rank() + 1) % ranks_.size(); }

  std::string NameOf(int rank) const {
    const RankPlace& place = places_[Index(rank)];
    return fmt::format("rank {} (process {} on {})", rank, place.process, place.host);
  }

  // Until this rank and the previous one are done: whoever has left cannot be waited for any more, and waits for all.
  void Run() {
    AwakeTime awake;
    milliseconds until_beat(0);
    bool has_left = false;
    for (;;) {
      const milliseconds passed = awake.SinceLast();
      silent_for_ += passed;
      const auto call = longest_call_.After(passed);
      until_beat -= passed;
      if (until_beat <= milliseconds(0)) {
        Send(next(), Beat(call));
        until_beat = kBeat;
      }
      TakeMessages();
      if (has_left && previous_has_left_) return;
      if (IsEndedByOther() || FindEnded() || FindSilent()) return;
      std::unique_lock lock(mutex_);
      constexpr milliseconds kLook(50);  // How soon the end of a process is seen.
      if (has_left) {
        lock.unlock();
        std::this_thread::sleep_for(kLook / 10);
      } else if (wakes_.wait_for(lock, kLook, [this] { return is_over_; })) {
        lock.unlock();
        Tell(kBye);
        has_left = true;
      }
    }
  }

  void Tell(std::string_view news) {
    for (const auto& [rank, end] : neighbours_) Send(rank, std::string(news));
    if (!neighbours_.contains(next())) Send(next(), std::string(news));
  }

  // Should it fail, the other rank ends the run, if it is still there.
  void Send(int to, const std::string& text) {
    llvm::consumeError(ranks_.Send(to, kTag, std::as_bytes(std::span(text))));
  }

  void TakeMessages() {
    for (;;) {
      llvm::Expected<std::optional<Message>> taken = ranks_.TakeAny(kTag);
      if (!taken) return llvm::consumeError(taken.takeError());
      if (!*taken) return;
      const Message& message = **taken;
      if (message.bytes == kEnds) is_ended_by_other_ = true;
      if (message.bytes == kBye) {
        neighbours_.erase(message.from);
        if (message.from == previous()) previous_has_left_ = true;
        continue;
      }
      if (message.from != previous() || message.bytes == kEnds) continue;
      silent_for_ = milliseconds(0);
      const std::size_t blank = std::min(message.bytes.find(' '), message.bytes.size() - 1);
      call_for_ = milliseconds(std::atoll(message.bytes.c_str()));
      call_ = message.bytes.substr(blank + 1);
    }
  }

  bool IsEndedByOther() {
    if (is_ended_by_other_) end_("");
    return is_ended_by_other_;
  }

  // Whether a neighbour's process has ended, and it has not said good-bye.
  bool FindEnded() {
    auto ended = std::ranges::find_if(neighbours_, [](const auto& neighbour) { return neighbour.second->HasCome(); });
    if (ended == neighbours_.end()) return false;
    const int rank = ended->first;
    std::this_thread::sleep_for(milliseconds(200));  // Its last message may be under way.
    TakeMessages();
    if (is_ended_by_other_) return IsEndedByOther();
    if (!neighbours_.contains(rank)) return false;
    const bool is_first = std::ranges::none_of(
        neighbours_, [&](const auto& other) { return other.first < ranks_.rank() && !other.second->HasCome(); });
    End(is_first ? fmt::format("{} ended while the others still needed it", NameOf(rank)) : "");
    return true;
  }

  bool FindSilent() {
    if (patience_.limit == seconds(0) || previous_has_left_) return false;
    if (silent_for_ > patience_.limit) {
      End(fmt::format("{} has not answered for {} seconds; it was {}. It is stopped, or its machine does not answer",
                      NameOf(previous()), patience_.limit.count(), call_.empty() ? "computing or waiting" : call_));
      return true;
    }
    if (call_for_ > patience_.limit) {
      End(fmt::format("{} has been {} for {} seconds; its disk or mount does not answer", NameOf(previous()), call_,
                      patience_.limit.count()));
      return true;
    }
    return false;
  }

  void End(const std::string& sentence) {
    if (!sentence.empty()) Tell(kEnds);
    end_(sentence.empty() || patience_.then.empty() ? sentence : fmt::format("{}. {}", sentence, patience_.then));
  }

  Communicator& ranks_;
  const RankPatience patience_;
  const std::vector<RankPlace> places_;
  const std::function<void(const std::string&)> end_;
  std::map<int, std::unique_ptr<ProcessEnd>> neighbours_;  // The other ranks of this machine that still run.
  LongestCall longest_call_;
  milliseconds silent_for_{0};  // The previous rank, while this one was awake.
  milliseconds call_for_{0};    // As the previous rank reported it last.
  std::string call_;
  bool previous_has_left_ = false;  // It said that it is done.
  bool is_ended_by_other_ = false;
  std::mutex mutex_;  // Protects `is_over_`.
  std::condition_variable wakes_;
  bool is_over_ = false;
  std::thread thread_;
};

RankWatch::RankWatch(std::unique_ptr<Watching> watching) : watching_(std::move(watching)) {}
RankWatch::~RankWatch() = default;

llvm::Expected<std::unique_ptr<RankWatch>> RankWatch::Begin(Communicator& ranks, RankPatience patience,
                                                            std::function<void(const std::string&)> end) {
  if (ranks.size() == 1 || !ranks.has_messages()) return nullptr;
  NoteOngoingCalls();
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(TextOf(OwnPlace())));
  std::vector<RankPlace> places;
  for (const std::string& text : all) places.push_back(PlaceOf(text));
  return std::unique_ptr<RankWatch>(
      new RankWatch(std::make_unique<Watching>(ranks, std::move(patience), std::move(places), std::move(end))));
}

}  // namespace ucp
