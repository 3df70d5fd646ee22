#include "runtime/healing/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp {

llvm::Expected<double> ReadNumber(JsonReader& json, double least, double most) {
  UCP_ASSIGN_OR_RETURN(const std::string_view word, json.ReadWord());
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = error == std::errc() && end == word.data() + word.size() && std::isfinite(number);
  if (is_number && number >= least && number <= most) return number;
  return Fail(ErrorCode::kUsage, "it is {}, and must be a number from {:g} to {:g}", word, least, most);
}

llvm::Expected<std::int64_t> ReadWhole(JsonReader& json, std::int64_t least, std::int64_t most) {
  UCP_ASSIGN_OR_RETURN(const std::string_view word, json.ReadWord());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && end == word.data() + word.size();
  if (is_whole && number >= least && number <= most) return number;
  return Fail(ErrorCode::kUsage, "it is {}, and must be a whole number from {} to {}", word, least, most);
}

llvm::Expected<bool> ReadBool(JsonReader& json) {
  UCP_ASSIGN_OR_RETURN(const std::string_view word, json.ReadWord());
  if (word == "true" || word == "false") return word == "true";
  return Fail(ErrorCode::kUsage, "it is {}, and must be true or false", word);
}

llvm::Error ReadKeys(JsonReader& json, KeyReaders readers, const std::vector<std::string>& needed) {
  std::set<std::string> found;
  UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::vector<std::string> known;
      for (const auto& [name, read] : readers) known.push_back(name);
      const std::optional<std::string> nearest = NearestWord(key, known);
      return Fail(ErrorCode::kUsage, "`{}` is not a known key{}", key,
                  nearest ? fmt::format("; is `{}` meant?", *nearest) : "");
    }
    found.insert(key);
    return AddContext(reader->second(), fmt::format("`{}`", key));
  }));
  for (const std::string& key : needed) {
    if (!found.contains(key)) return Fail(ErrorCode::kUsage, "it has no `{}`", key);
  }
  return llvm::Error::success();
}

}  // namespace ucp
