#include "runtime/driver/inspect_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "compiler/support/units.h"

namespace ucp {
namespace {

constexpr std::size_t kColumns = 80;
constexpr const char* kIndent = "          ";

// A name in which each part that is a number is `#`, and these numbers.
std::pair<std::string, std::vector<std::uint64_t>> NumbersIn(const std::string& name) {
  constexpr std::size_t kMostDigits = 9;
  std::string pattern;
  std::vector<std::uint64_t> numbers;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.size() <= kMostDigits && (part.size() == 1 || part[0] != '0') &&
                           std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) numbers.push_back(std::stoull(part));
    pattern += (begin == 0 ? "" : ".") + (is_number ? "#" : part);
    begin = end + 1;
  }
  return {pattern, numbers};
}

struct Group {
  std::string pattern;
  std::vector<std::set<std::uint64_t>> numbers;  // At each place.
  std::vector<const InspectedTensor*> rows;
};

// Every combination of the numbers is there.
bool IsFull(const Group& group) {
  std::uint64_t combinations = 1;
  for (const std::set<std::uint64_t>& at : group.numbers) {
    combinations *= at.size();
  }
  return combinations == group.rows.size();
}

bool FollowEachOther(const std::set<std::uint64_t>& numbers) {
  return *numbers.rbegin() - *numbers.begin() + 1 == numbers.size();
}

// "3", "{0-31}", "{0,2,4}"
std::string NumbersText(const std::set<std::uint64_t>& numbers) {
  if (numbers.size() == 1) return std::to_string(*numbers.begin());
  if (FollowEachOther(numbers)) return fmt::format("{{{}-{}}}", *numbers.begin(), *numbers.rbegin());
  return fmt::format("{{{}}}", fmt::join(numbers, ","));
}

std::string NameOf(const Group& group) {
  std::string name;
  auto numbers = group.numbers.begin();
  for (char c : group.pattern) {
    if (c != '#') {
      name += c;
      continue;
    }
    name += NumbersText(*numbers++);
  }
  return name;
}

void AddLines(const InspectedTensor& row, const std::string& name, std::size_t count, std::uint64_t bytes,
              std::vector<std::string>& lines) {
  const std::string first = fmt::format("{:<9} {}{}  {}", row.kind_name, name,
                                        count == 1 ? "" : fmt::format("  x {}", WithThousands(count)), ShapeText(row));
  const std::string second = fmt::format("{}  {}", StatesText(row), HumanBytes(bytes));
  if (first.size() + 2 + second.size() <= kColumns) {
    lines.push_back(fmt::format("{}  {}", first, second));
  } else {
    lines.push_back(first);
    lines.push_back(kIndent + second);
  }
}

std::vector<Group> GroupsOf(const std::vector<InspectedTensor>& rows) {
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  std::vector<Group> groups;
  for (const InspectedTensor& row : rows) {
    auto [pattern, numbers] = NumbersIn(row.name);
    const std::string rest = fmt::format("{} {} {}", row.kind_name, ShapeText(row), StatesText(row));
    const auto [place, is_new] = known.try_emplace({pattern, rest}, groups.size());
    if (is_new) groups.push_back({pattern, std::vector<std::set<std::uint64_t>>(numbers.size()), {}});
    Group& group = groups[place->second];
    for (std::size_t i = 0; i < numbers.size(); ++i) group.numbers[i].insert(numbers[i]);
    group.rows.push_back(&row);
  }
  return groups;
}

// "46 parameters, 6 buffers"
std::string KindsText(const std::vector<InspectedTensor>& rows) {
  std::map<std::string, std::uint64_t> kinds;
  for (const InspectedTensor& row : rows) ++kinds[row.kind_name];
  std::vector<std::string> texts;
  for (const auto& [kind, count] : kinds) {
    const bool is_adjective = kind == "frozen" || kind == "carried";
    texts.push_back(is_adjective ? fmt::format("{} {}", WithThousands(count), kind) : Counted(count, kind));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string DTypesText(const std::vector<InspectedTensor>& rows) {
  std::set<std::string> dtypes;
  for (const InspectedTensor& row : rows) {
    for (const auto& [state, dtype] : row.states) dtypes.insert(dtype);
  }
  return fmt::format("{}", fmt::join(dtypes, ", "));
}

// The most usual next command for such a checkpoint; empty if its name would have to be quoted.
std::string NextCommand(const Inspection& inspection) {
  const Checkpoint& checkpoint = inspection.source.checkpoint;
  const std::string& path = inspection.path;
  const bool is_plain = std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+=").find(c) != std::string_view::npos;
  });
  if (!is_plain || checkpoint.inventory.format == "safetensors") return "";
  const bool has_optimizer = !checkpoint.training.groups.empty();
  const bool is_universal = checkpoint.inventory.format == "universal";
  return fmt::format("ucprun convert {} OUT --to {}", path,
                     is_universal || !has_optimizer ? "safetensors" : "universal");
}

}  // namespace

std::string StatesText(const InspectedTensor& row) {
  std::map<std::string, std::vector<std::string>> by_dtype;
  for (const auto& [state, dtype] : row.states) by_dtype[dtype].push_back(state);
  std::vector<std::string> texts;
  for (const auto& [dtype, states] : by_dtype) texts.push_back(fmt::format("{} {}", dtype, fmt::join(states, " ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ShapeText(const InspectedTensor& row) {
  std::string shape = fmt::format("[{}]", fmt::join(row.shape, ", "));
  if (row.tensor_parallel_ranks == 1 && row.other_ranks == 0) return shape;
  if (row.other_ranks == 0) return fmt::format("{} on each of {} tp ranks", shape, row.tensor_parallel_ranks);
  return fmt::format("{} on {} of {} tp ranks", shape, row.tensor_parallel_ranks,
                     row.tensor_parallel_ranks + row.other_ranks);
}

std::vector<std::string> InspectHeader(const Inspection& inspection) {
  const Inventory& inventory = inspection.source.checkpoint.inventory;
  const Storage& storage = inventory.storage;
  std::vector<std::string> lines = IdentityLines(inspection.source.identity, "read", 10);
  lines.push_back(
      fmt::format("tensors   {}: {}", WithThousands(inspection.all_tensors), KindsText(inspection.tensors)));
  if (inspection.all_tensors != inspection.tensors.size()) {
    lines.back() = fmt::format("tensors   {} of {}: {}", WithThousands(inspection.tensors.size()),
                               WithThousands(inspection.all_tensors), KindsText(inspection.tensors));
  }
  if (inspection.elements) lines.back() += fmt::format(" of {} elements", WithThousands(*inspection.elements));
  lines.push_back(fmt::format("dtypes    {}", DTypesText(inspection.tensors)));
  const std::string optimizer = OptimizerText(inspection.source.checkpoint.training);
  if (!optimizer.empty()) lines.push_back("optimizer " + optimizer);
  const FilesOfStorage files = FilesOf(storage);
  lines.push_back(fmt::format("files     {}, {}", WithThousands(files.count), HumanBytes(files.bytes)));
  if (!inspection.fitting_specs.empty()) {
    lines.push_back(fmt::format("spec      `{}` of the catalogue", fmt::join(inspection.fitting_specs, "`, `")));
  }
  if (const std::string next = NextCommand(inspection); !next.empty()) lines.push_back("next      " + next);
  for (const std::string& remark : inventory.remarks) lines.push_back("note      " + remark);
  for (const std::string& note : DecisionNotes(inventory.preference, inventory.decisions)) {
    lines.push_back("note      " + note);
  }
  return lines;
}

std::vector<std::string> TensorLines(const std::vector<InspectedTensor>& rows, bool grouped) {
  std::vector<std::string> lines;
  if (!grouped) {
    for (const InspectedTensor& row : rows) AddLines(row, row.name, 1, row.bytes, lines);
    return lines;
  }
  for (const Group& group : GroupsOf(rows)) {
    if (!IsFull(group)) {
      for (const InspectedTensor* row : group.rows) AddLines(*row, row->name, 1, row->bytes, lines);
      continue;
    }
    std::uint64_t bytes = 0;
    for (const InspectedTensor* row : group.rows) bytes += row->bytes;
    AddLines(*group.rows.front(), NameOf(group), group.rows.size(), bytes, lines);
  }
  return lines;
}

}  // namespace ucp
