#include "runtime/trace/element_name.h"

#include <fmt/ranges.h>

#include <charconv>

#include "compiler/support/error.h"

namespace ucp {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "17, 204"; nothing between the brackets is the index of a tensor without dimensions.
bool ParseIndex(std::string_view text, Index& index) {
  if (Trimmed(text).empty()) return true;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view number = Trimmed(text.substr(0, comma));
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < 0) return false;
    index.push_back(value);
    if (!is_last) text.remove_prefix(comma + 1);
  }
  return true;
}

}  // namespace

llvm::Expected<ElementName> ParseElementName(std::string_view text) {
  const std::size_t open = text.rfind('[');
  const std::size_t close = text.rfind(']');
  ElementName name;
  bool fits = open != std::string_view::npos && close != std::string_view::npos && open > 0 && open < close;
  if (fits) {
    const std::string_view state = text.substr(close + 1);
    name.tensor = text.substr(0, open);
    fits = ParseIndex(text.substr(open + 1, close - open - 1), name.index) &&
           (state.empty() || (state.size() > 1 && state.starts_with('.')));
    if (fits && !state.empty()) name.state = state.substr(1);
  }
  if (fits) return name;
  return Fail(ErrorCode::kUsage,
              "`{}` names no element; write TENSOR[INDEX,…] or TENSOR[INDEX,…].STATE, such as "
              "'layers.0.up.weight[17,204].exp_avg'",
              text);
}

llvm::Error CheckIndex(const ElementName& name, const std::vector<std::int64_t>& shape) {
  bool fits = name.index.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = name.index[d] < shape[d];
  if (fits) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "tensor `{}` has the shape [{}], so there is no element [{}] in it", name.tensor,
              fmt::join(shape, ", "), fmt::join(name.index, ", "));
}

}  // namespace ucp
