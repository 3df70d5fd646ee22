// UTF-8 as Python's pickles use it: lone surrogates are allowed, as three bytes each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucp::pytorch {

bool IsPickleUtf8(std::string_view text);
// Returns the bytes whose Latin-1 decoding is this valid text; nothing if a character is beyond U+00FF.
std::optional<std::string> Latin1Bytes(std::string_view utf8);
// Returns the UTF-8 of these bytes read as Latin-1.
std::string Latin1Text(std::string_view bytes);

}  // namespace ucp::pytorch
