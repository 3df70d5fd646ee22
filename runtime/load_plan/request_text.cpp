// Two requests have the same text if and only if they are the same: so lists are never cut.
#include "runtime/load_plan/request_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

namespace ucp {
namespace {

struct ValueText {
  std::string operator()(const std::string& text) const { return fmt::format("{:?}", text); }
  std::string operator()(const std::vector<FactValue>& list) const {
    std::vector<std::string> texts;
    for (const FactValue& entry : list) texts.push_back(std::visit(*this, entry.value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(double number) const { return fmt::format("{:#}", number); }  // 4.0, which is not 4.
  template <typename T>
  std::string operator()(const T& number) const {
    return fmt::format("{}", number);
  }
};

// Their order says nothing; callers may have sets.
std::vector<std::string> Sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string RequestText(const SourceRequest& source, const std::string& target, const std::vector<std::string>& more) {
  std::vector<std::string> with;
  if (!source.spec.empty()) with.push_back(fmt::format("spec `{}`", source.spec));
  if (!source.config.empty()) with.push_back(fmt::format("config `{}`", source.config));
  for (const auto& [name, value] : source.set) {
    with.push_back(fmt::format("{} = {}", name, std::visit(ValueText(), value.value)));
  }
  for (const std::string& name : Sorted(source.unused)) with.push_back(fmt::format("`{}` unused", name));
  for (const std::string& name : Sorted(source.drop_states)) with.push_back(fmt::format("state `{}` dropped", name));
  if (!source.preference.empty()) {
    with.push_back(fmt::format("rank {} preferred", ToString(source.preference.named)));
  }
  with.insert(with.end(), more.begin(), more.end());
  std::string text = fmt::format("`{}`", source.path);
  if (!target.empty()) text += fmt::format(" as `{}`", target);
  return with.empty() ? text : fmt::format("{} with {}", text, fmt::join(with, ", "));
}

}  // namespace ucp
