#include "compiler/support/ongoing_calls.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>

namespace ucp {
namespace {

std::atomic<bool> notes_calls = false;

struct Noted {
  std::mutex mutex;  // Protects the others.
  std::list<Ongoing::Entry> calls;
  std::uint64_t begun = 0;
};

Noted& AllNoted() {
  static Noted noted;
  return noted;
}

}  // namespace

Ongoing::Ongoing(std::string_view doing, std::string_view path) {
  if (!notes_calls.load(std::memory_order_relaxed)) return;
  Noted& noted = AllNoted();
  const std::lock_guard lock(noted.mutex);
  entry_ = noted.calls.insert(noted.calls.end(), {++noted.begun, doing, path});
  is_noted_ = true;
}

Ongoing::~Ongoing() {
  if (!is_noted_) return;
  Noted& noted = AllNoted();
  const std::lock_guard lock(noted.mutex);
  noted.calls.erase(entry_);
}

void NoteOngoingCalls() { notes_calls = true; }

std::vector<OngoingCall> OngoingCalls() {
  Noted& noted = AllNoted();
  const std::lock_guard lock(noted.mutex);
  std::vector<OngoingCall> calls;
  for (const Ongoing::Entry& call : noted.calls) {
    calls.push_back({call.number, fmt::format("{} `{}`", call.doing, call.path)});
  }
  return calls;
}

}  // namespace ucp
