#include "runtime/elements/element_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <type_traits>

#include "compiler/layout/number_of_dtype.h"

namespace ucp {

std::string ElementText(DType dtype, const std::byte* bytes) {
  std::string bits = "0x";
  for (std::int64_t i = ItemBytes(dtype); i-- > 0;) bits += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  std::string text = bits;
  VisitNumber(dtype, [&](auto type) {
    const auto number = LoadNumber<decltype(type)>(bytes);
    text = std::is_integral_v<decltype(number)> ? fmt::format("{}", number) : fmt::format("{} ({})", number, bits);
  });
  return text;
}

}  // namespace ucp
