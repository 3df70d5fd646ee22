// The nearest known word to a misspelt one, for messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

// Returns the candidate with the fewest edits from `word`, if they are few enough that a typo explains them (at most a
// third of the word's length, at least one). Ties go to the first candidate.
std::optional<std::string> NearestWord(std::string_view word, std::span<const std::string> candidates);

// Returns the `count` candidates nearest to `name`, nearest first, however far they are; for names of tensors. Linear
// in the candidates; names are compared up to their first 256 bytes.
std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> candidates,
                                      std::size_t count);

}  // namespace ucp
