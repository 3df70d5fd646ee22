// The calls of the file system that a process is in: where a disk or a mount hangs, a message can name the call. A sync
// is none of them, because it may take as long as there is to write.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

struct OngoingCall {
  std::uint64_t number = 0;  // Of no other call of this process.
  std::string text;          // "reading `/data/model.pt`"
};

// From its construction to its end, one call. The views must live as long. Costs nothing before NoteOngoingCalls().
class Ongoing {
 public:
  Ongoing(std::string_view doing, std::string_view path);
  ~Ongoing();
  Ongoing(const Ongoing&) = delete;
  Ongoing& operator=(const Ongoing&) = delete;

  struct Entry {
    std::uint64_t number;
    std::string_view doing;
    std::string_view path;
  };

 private:
  std::list<Entry>::iterator entry_;
  bool is_noted_ = false;
};

// Notes calls from now on.
void NoteOngoingCalls();

// Returns those that are noted and not at an end, the oldest first.
std::vector<OngoingCall> OngoingCalls();

}  // namespace ucp
