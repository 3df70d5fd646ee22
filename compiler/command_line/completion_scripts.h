// The scripts that make a shell ask the program what a word can be (completion.h).
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// Empty for a shell that has none.
std::string CompletionScript(std::string_view shell, const std::string& program);

}  // namespace ucp
