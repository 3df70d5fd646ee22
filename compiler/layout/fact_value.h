// The value of a fact, in words for messages and as it is typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/layout/inventory.h"

namespace ucp {

// "a number", "a text", "a list", "a fraction", "true or false"
std::string_view KindOf(const FactValue& value);

// `true`, `3`, `"moe"`, `["dense", "moe", "moe"]`; long lists are cut, and say how long they are.
std::string TextOf(const FactValue& value);

// Returns the values that `--set NAME=` takes: true, false, a number, a list in brackets, or a text, with or without
// quotes. In a list, blanks between the elements do not count, and a text without quotes ends at a comma or bracket.
// Returns nothing for an unclosed list or quote, or lists within lists within lists.
std::optional<FactValue> ParseFactValue(std::string_view text);

// Returns a text from which ParseFactValue() makes this value, which was one of its values.
std::string SettingOf(const FactValue& value);

}  // namespace ucp
