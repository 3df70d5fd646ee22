// Called by libFuzzer, or by bounded.cpp where there is none, once for each input. Returns 0. A target that
// finds something wrong stops the program (compiler/support/check.h), as a sanitizer does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ucp::fuzz {

inline std::string_view Text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace ucp::fuzz
