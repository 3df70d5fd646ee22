#include "compiler/explain/explain_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/explain/name_groups.h"
#include "compiler/layout/fact_value.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

// More are for `--json` and for `--tensor`.
constexpr std::size_t kMostHolders = 16;
constexpr std::size_t kMostRuns = 6;

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// "deepspeed, pp=2 tp=2"
std::string SideText(const std::string& name, const Mesh& mesh) {
  if (mesh.axes.empty()) return name;
  return name.empty() ? ToString(mesh) : fmt::format("{}, {}", name, ToString(mesh));
}

class TextWriter {
 public:
  TextWriter(const Explanation& explanation, Detail detail, llvm::function_ref<bool(const std::string&)> line)
      : explanation_(explanation), detail_(detail), line_(line) {}

  void Write() {
    WriteHeader();
    for (const NameGroup& group : Groups()) {
      if (stopped_) return;
      WriteGroup(group);
    }
    Line(TotalsText(explanation_.totals));
  }

 private:
  void Line(const std::string& text) { stopped_ = stopped_ || !line_(text); }

  void WriteHeader() {
    if (!explanation_.source_name.empty()) {
      Line("source is " + SideText(explanation_.source_name, explanation_.source_mesh));
    }
    if (explanation_.target_mesh) Line("target is " + SideText(explanation_.target_name, *explanation_.target_mesh));
    for (const ExplainedValue& dim : explanation_.dims) Line(ValueText("dim", dim));
    for (const ExplainedValue& fact : explanation_.facts) Line(ValueText("fact", fact));
    for (const std::string& choice : explanation_.choices) Line(choice);
    Line("");
  }

  std::vector<NameGroup> Groups() const {
    std::vector<NameOfKind> names;
    for (const ExplainedTensor& tensor : explanation_.tensors) {
      names.push_back(
          {tensor.layout->name, detail_ == Detail::kGroups ? KindOf(tensor) : std::to_string(names.size())});
    }
    return GroupNames(names);
  }

  // Tensors of one kind have the same paragraph, but for their stages.
  std::string KindOf(const ExplainedTensor& tensor) const {
    return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", tensor.file, tensor.line.value_or(0), tensor.declared,
                       ShapeText(tensor.shape), tensor.cutting, tensor.target_cutting.value_or(0),
                       ToString(tensor.pattern.pattern), tensor.layout->aliases.size());
  }

  void WriteGroup(const NameGroup& group) {
    const ExplainedTensor& tensor = explanation_.tensors[group.members.front()];
    std::size_t count = group.members.size();
    Line(count == 1 ? tensor.layout->name : fmt::format("{}  x {}", group.name, WithThousands(count)));
    Field("pattern", fmt::format("{}: {}", ToString(tensor.pattern.pattern), PatternReason(group)));
    Field("declared", tensor.declared);
    Field("by", tensor.line ? fmt::format("{}:{}", tensor.file, *tensor.line) : tensor.file);
    Field("whole", fmt::format("{}, {}{}", ShapeText(tensor.shape), Counted(tensor.elements, "element"),
                               count == 1 ? "" : " each"));
    if (!tensor.layout->aliases.empty()) Field("tied", AliasText(group));
    WriteStages("stages", group, &ExplainedTensor::stages, explanation_.source_mesh);
    WriteHolders("held by", SourceHolders(tensor));
    if (tensor.target_cutting) {
      WriteStages("to stages", group, &ExplainedTensor::target_stages, *explanation_.target_mesh);
      WriteHolders("target", Shown(explanation_.cuttings[*tensor.target_cutting].holders));
    }
    Line("");
  }

  void Field(const std::string& name, const std::string& value) { Line(fmt::format("  {:<9} {}", name, value)); }

  // Where members lie on different stages, the reason of the first one would name a wrong one for the rest.
  std::string PatternReason(const NameGroup& group) const {
    const std::string& first = explanation_.tensors[group.members.front()].pattern.why;
    bool same = std::all_of(group.members.begin(), group.members.end(),
                            [&](std::size_t member) { return explanation_.tensors[member].pattern.why == first; });
    return same ? first : "whole on one stage alone";
  }

  std::string AliasText(const NameGroup& group) const {
    const std::vector<std::string>& aliases = explanation_.tensors[group.members.front()].layout->aliases;
    return fmt::format("also {}{}", fmt::join(aliases, ", "), group.members.size() == 1 ? "" : " and so on");
  }

  using Stages = std::optional<std::vector<std::int64_t>>;

  void WriteStages(const std::string& label, const NameGroup& group, Stages ExplainedTensor::* which,
                   const Mesh& mesh) {
    std::set<std::int64_t> stages;
    bool one_each = true;
    for (std::size_t member : group.members) {
      const Stages& own = explanation_.tensors[member].*which;
      if (!own || mesh.Size("pp") == 1) return;
      stages.insert(own->begin(), own->end());
      one_each = one_each && own->size() == 1;
    }
    bool split = group.members.size() > 1 && stages.size() > 1 && one_each;
    std::vector<std::int64_t> unused;
    if (which == &ExplainedTensor::stages) {
      unused = explanation_.tensors[group.members.front()].layout->unused_stages;
    }
    std::string untrained =
        unused.empty() ? "" : fmt::format(", and a copy that is not trained on {}", fmt::join(unused, ", "));
    Field(label, fmt::format("{}{}{}", fmt::join(stages, ", "), split ? ", each on one of them" : "", untrained));
  }

  // A line that says who holds what, and the lines below it that say where.
  struct HolderLine {
    std::string who;
    std::string what;
    std::vector<std::string> where;
  };

  std::vector<HolderLine> SourceHolders(const ExplainedTensor& tensor) const {
    bool with_files = detail_ == Detail::kTensors && !tensor.shards.empty();
    return with_files ? HoldersWithFiles(tensor) : Shown(explanation_.cuttings[tensor.cutting].holders);
  }

  std::vector<HolderLine> Shown(const std::vector<Holder>& holders) const {
    std::size_t shown = detail_ == Detail::kTensors ? holders.size() : std::min(holders.size(), kMostHolders);
    std::vector<HolderLine> lines;
    for (std::size_t i = 0; i < shown; ++i) lines.push_back({Who(holders[i].at), What(holders[i].held), {}});
    if (shown < holders.size()) lines.push_back({"…", fmt::format("{} more", holders.size() - shown), {}});
    return lines;
  }

  static std::string Who(const Coordinate& at) { return at.at.empty() ? "every rank" : ToString(at); }
  static std::string What(const ProductSet& held) {
    return fmt::format("{} local, elements {}", ShapeText(held.LocalShape()), HeldText(held, kMostRuns));
  }

  std::vector<HolderLine> HoldersWithFiles(const ExplainedTensor& tensor) const {
    std::map<Coordinate, HolderLine> lines;
    for (const Shard* shard : tensor.shards) {
      HolderLine& line = lines[shard->coordinate];
      line.who = Who(shard->coordinate);
      if (const ProductSet* held = HeldAt(tensor, shard->coordinate)) line.what = What(*held);
      for (const StateFiles& states : StateFilesOf(*shard, explanation_.inventory->storage)) {
        line.where.push_back(WhereText(states));
      }
    }
    std::vector<HolderLine> sorted;
    for (auto& [coordinate, line] : lines) sorted.push_back(std::move(line));
    return sorted;
  }

  const ProductSet* HeldAt(const ExplainedTensor& tensor, const Coordinate& coordinate) const {
    for (const Holder& holder : explanation_.cuttings[tensor.cutting].holders) {
      bool here = std::all_of(holder.at.at.begin(), holder.at.at.end(),
                              [&](const auto& at) { return coordinate.At(at.first) == at.second; });
      if (here) return &holder.held;
    }
    return nullptr;
  }

  static std::string WhereText(const StateFiles& states) {
    std::string files = states.files.empty() ? "no file" : states.files.front();
    if (states.files.size() > 1) files += fmt::format(" and {} more", states.files.size() - 1);
    return fmt::format("{} in {}", fmt::join(states.states, ", "), files);
  }

  void WriteHolders(std::string label, const std::vector<HolderLine>& lines) {
    std::size_t width = 0;
    for (const HolderLine& line : lines) width = std::max(width, line.who.size());
    for (const HolderLine& line : lines) {
      Field(label, fmt::format("{:<{}}  {}", line.who, width, line.what));
      label.clear();
      for (const std::string& where : line.where) Field("", "  " + where);
    }
  }

  const Explanation& explanation_;
  Detail detail_;
  llvm::function_ref<bool(const std::string&)> line_;
  bool stopped_ = false;
};

}  // namespace

void ExplainAsText(const Explanation& explanation, Detail detail, llvm::function_ref<bool(const std::string&)> line) {
  TextWriter(explanation, detail, line).Write();
}

std::string ValueText(const std::string& word, const ExplainedValue& value) {
  std::string origin = value.origin.empty() ? "" : ", " + value.origin;
  return fmt::format("{} {} is {}{}", word, value.name, TextOf(value.value), origin);
}

std::string TotalsText(const ExplainedTotals& totals) {
  std::string buffers;
  if (totals.buffers != 0) buffers = fmt::format(", {} of buffers", Counted(totals.buffers, "element"));
  std::string ties;
  if (totals.ties != 0) ties = fmt::format("; {}", Counted(totals.ties, "second name"));
  return fmt::format("{}: {}{}{}", Counted(totals.tensors, "tensor"), Counted(totals.parameters, "parameter"), buffers,
                     ties);
}

}  // namespace ucp
