// The net under a program: an exception that nobody caught, before main(), in a destructor or in a thread, is one
// sentence and an exit code of docs/programs.md. Nothing here allocates.
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <new>
#include <string_view>

#include "compiler/support/out_of_memory.h"

namespace ucp {
namespace {

void Write(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void End(std::string_view reason, std::string_view advice, int exit_code) {
  for (const std::string_view text :
       {std::string_view(UCP_PROGRAM ": error: "), reason, advice, std::string_view("\n")})
    Write(text);
  ::_exit(exit_code);
}

[[noreturn]] void EndWithoutMemory() {
  constexpr int kTooLittleMemory = 1;
  End(kOutOfMemory, "", kTooLittleMemory);
}

[[noreturn]] void EndByException() {
  constexpr int kOurMistake = 2;
  constexpr std::string_view kReport = "; this is a mistake of the program, please report it";
  if (std::current_exception() == nullptr) EndWithoutMemory();  // Not even for the exception.
  try {
    throw;
  } catch (const std::bad_alloc&) {
    EndWithoutMemory();
  } catch (const std::exception& other) {
    End(other.what(), kReport, kOurMistake);
  } catch (...) {
    End("something unknown was thrown", kReport, kOurMistake);
  }
}

void SetNet() {
  std::set_terminate(EndByException);
  EndWhereNothingMayBeThrown(EndWithoutMemory);
}

// The C library looks for its unwinder when it first needs it, and ends the process if it has no memory then.
[[gnu::constructor]] void FindUnwinder() {
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), static_cast<int>(frame.size()));
}

// Before all constructors, those of libraries included.
[[gnu::used, gnu::section(".preinit_array")]] void (*const before_all_else)() = SetNet;

}  // namespace
}  // namespace ucp
