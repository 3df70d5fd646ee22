#include "compiler/bind/values/decided_conditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/bind/values/evaluate_condition.h"

namespace ucp {
namespace {

constexpr std::size_t kShownRanges = 8;

// A condition may be written over several lines.
std::string OnOneLine(std::string_view text) {
  std::string line;
  for (char c : text) {
    bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

// "0..2, 5": neighbours are joined. Many ranges end in `…`.
std::string RangesText(const std::vector<std::int64_t>& numbers) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (shown++ == kShownRanges) return text + ", …";
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end - begin > 1) text += fmt::format("..{}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace

std::optional<bool> DecidedConditions::Ask(const Condition& condition, const Pattern& pattern,
                                           std::span<const std::int64_t> counters) {
  auto [entry, added] = asked_.try_emplace(&condition);
  Asked& asked = entry->second;
  if (added) {
    References references;
    references.Add(condition);
    asked.counters = references.counters;
    for (std::size_t counter : asked.counters) asked.names.push_back(pattern.counters[counter].name);
  }
  std::vector<std::int64_t> key;
  for (std::size_t counter : asked.counters) key.push_back(counters[counter]);
  if (auto answer = asked.answers.find(key); answer != asked.answers.end()) return answer->second;
  Truth truth = Decide(condition, values_, counters, sink_);
  if (truth == Truth::kOpen) {
    sink_.Report({.kind = DiagnosticKind::kFactWithoutValue,
                  .place = condition.range,
                  .message = "nothing says whether this holds",
                  .notes = NotesOf(condition, values_)});
  }
  if (truth == Truth::kOpen || truth == Truth::kWrong) return std::nullopt;
  return asked.answers.emplace(std::move(key), truth == Truth::kTrue).first->second;
}

std::vector<Choice> DecidedConditions::Choices() const {
  std::vector<Choice> choices;
  for (const auto& [condition, asked] : asked_) {
    if (asked.answers.empty()) continue;
    std::string text = fmt::format("`{}` {}", OnOneLine(values_.spec.TextOf(condition->range)),
                                   Verdict(asked, condition->is_block ? "is there" : "holds"));
    for (const Note& note : NotesOf(*condition, values_)) text += "; " + note.message;
    choices.push_back({condition->range, std::move(text)});
  }
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.range < b.range; });
  return choices;
}

void DecidedConditions::ReportPartlyThere() const {
  for (const auto& [condition, asked] : asked_) {
    if (!condition->is_block) continue;
    const auto is_there = [](const auto& answer) { return answer.second; };
    if (std::ranges::all_of(asked.answers, is_there) || std::ranges::none_of(asked.answers, is_there)) continue;
    sink_.Report(
        {.kind = DiagnosticKind::kPartlyOptional,
         .place = condition->range,
         .message = fmt::format("an optional block is there for all counters around it or for none, and here it "
                                "{}",
                                Verdict(asked, "is there")),
         .notes = NotesOf(*condition, values_),
         .hint = "say with `when` which of them have it"});
  }
}

std::string DecidedConditions::Verdict(const Asked& asked, std::string_view verb) {
  if (asked.counters.empty()) {
    const bool is_block = verb == "is there";
    return asked.answers.begin()->second ? std::string(verb) : is_block ? "is not there" : "does not hold";
  }
  std::vector<std::int64_t> first;      // Of each combination for which it holds.
  std::vector<std::int64_t> first_all;  // Of each that was asked.
  for (const auto& [counters, holds] : asked.answers) {
    if (holds) first.push_back(counters.front());
    first_all.push_back(counters.front());
  }
  // Behind another condition, only some are asked: `2` are 0 and 1, and not 1 and 3.
  bool from_zero = asked.counters.size() > 1 || first_all.back() + 1 == std::ssize(first_all);
  std::string all = from_zero ? std::to_string(first_all.size()) : RangesText(first_all);
  std::string names = fmt::format("{}", fmt::join(asked.names, ", "));
  if (first.empty()) return fmt::format("{} for no {} of {}", verb, names, all);
  if (first.size() == first_all.size()) return fmt::format("{} for every {} of {}", verb, names, all);
  if (asked.counters.size() > 1)
    return fmt::format("{} for {} of {} combinations of {}", verb, first.size(), all, names);
  return fmt::format("{} for {} = {} of {}", verb, names, RangesText(first), all);
}

}  // namespace ucp
