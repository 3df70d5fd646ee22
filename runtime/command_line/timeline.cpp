#include "runtime/command_line/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/support/json_text.h"

namespace ucp {
namespace {

// The numbers of the threads that are alive and have done something. Threads come and go with each phase, and rows
// should not.
class ThreadNumbers {
 public:
  unsigned Take() {
    std::lock_guard lock(mutex_);
    unsigned number = 0;
    while (taken_.contains(number)) ++number;
    taken_.insert(number);
    return number;
  }
  void GiveBack(unsigned number) {
    std::lock_guard lock(mutex_);
    taken_.erase(number);
  }

 private:
  std::mutex mutex_;  // Protects what follows.
  std::set<unsigned> taken_;
};

ThreadNumbers& Numbers() {
  static ThreadNumbers numbers;
  return numbers;
}

struct NumberOfThisThread {
  const unsigned number = Numbers().Take();
  NumberOfThisThread() = default;
  ~NumberOfThisThread() { Numbers().GiveBack(number); }
  NumberOfThisThread(const NumberOfThisThread&) = delete;
  NumberOfThisThread& operator=(const NumberOfThisThread&) = delete;
};

unsigned ThreadNumber() {
  thread_local const NumberOfThisThread mine;
  return mine.number;
}

double Microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::string Quoted(std::string_view text) { return IsUtf8(text) ? QuoteJson(text) : "\"(not UTF-8)\""; }

constexpr unsigned kPhaseRow = 0;

}  // namespace

Timeline::Timeline(TextSink sink, std::uint64_t most_events) : sink_(std::move(sink)), events_left_(most_events) {
  sink_.Append("[\n");
  NameRow(kPhaseRow, "phases");
}

void Timeline::Add(const TimelineEvent& event) {
  const unsigned row = ThreadNumber() + 1;
  std::lock_guard lock(mutex_);
  for (; named_rows_ < row; ++named_rows_) NameRow(named_rows_ + 1, fmt::format("thread {}", named_rows_));
  Write(event, row);
}

void Timeline::AddPhase(const TimelineEvent& event) {
  std::lock_guard lock(mutex_);
  Write(event, kPhaseRow);
}

void Timeline::Write(const TimelineEvent& event, unsigned row) {
  if (events_left_ == 0) {
    ++left_out_;
    return;
  }
  --events_left_;
  std::string text =
      fmt::format(R"({{"name":{},"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f})", Quoted(event.name), row,
                  Microseconds(event.begin - start_), Microseconds(event.end - event.begin));
  if (!event.file.empty()) {
    text += fmt::format(R"(,"args":{{"file":{}{}}})", Quoted(event.file),
                        event.bytes == 0 ? "" : fmt::format(R"(,"bytes":{})", event.bytes));
  } else if (event.bytes != 0) {
    text += fmt::format(R"(,"args":{{"bytes":{}}})", event.bytes);
  }
  sink_.Append(text + "},\n");
}

// Rows stand in the order of their numbers.
void Timeline::NameRow(unsigned row, const std::string& name) {
  sink_.Append(fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}},)"
                           "\n",
                           row, name));
}

llvm::Error Timeline::Close() {
  std::lock_guard lock(mutex_);
  sink_.Append(fmt::format(R"({{"name":"ucprun","ph":"M","pid":1,"args":{{"left_out":{}}}}})"
                           "\n]\n",
                           left_out_));
  return sink_.Close();
}

}  // namespace ucp
