// "We are wrong": a broken promise inside this program stops it, in release builds too, with both values in the
// message.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace ucp::internal {

[[noreturn]] inline void StopProgram(const char* file, int line, const std::string& message) {
  std::fputs(fmt::format("ucp: internal error at {}:{}: {}; please report this\n", file, line, message).c_str(),
             stderr);
  std::abort();
}

}  // namespace ucp::internal

// UCP_CHECK(begin <= end, "begin {} is after end {}", begin, end)
#define UCP_CHECK(condition, ...)                                                                 \
  do {                                                                                            \
    if (!(condition)) ::ucp::internal::StopProgram(__FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)

// After a switch that names every case.
#define UCP_UNREACHABLE() ::ucp::internal::StopProgram(__FILE__, __LINE__, "a case that cannot happen")
