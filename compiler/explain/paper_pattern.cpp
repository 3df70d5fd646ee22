// A dimension is cut if some rank lacks a position of it. Its parts are consecutive if every rank's part is one run and
// the runs of one axis follow each other in the order of its ranks (copies aside): then concatenating them gives the
// dimension back, which is what Shard-V and Shard-H promise to a reader. Everything is read off the selections, so a
// cut by any rule that happens to give whole or consecutive parts on this mesh is called what it is.
#include "compiler/explain/paper_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// How one dimension is spread over the holders.
struct Spreading {
  bool cut = false;
  bool in_order = true;
  std::size_t most_pieces = 0;  // Of one holder.
  std::int64_t shortest = 0;    // Positions of one holder.
  std::int64_t longest = 0;
};

Spreading SpreadingOf(const std::vector<Holder>& holders, std::size_t dim, std::int64_t length, bool one_axis) {
  Spreading spreading;
  spreading.shortest = length;
  std::int64_t last_begin = 0;
  for (const Holder& holder : holders) {
    const Selection& selection = holder.held.dims[dim];
    spreading.cut = spreading.cut || selection.real_length() < length;
    spreading.most_pieces = std::max(spreading.most_pieces, selection.runs().size());
    spreading.shortest = std::min(spreading.shortest, selection.real_length());
    spreading.longest = std::max(spreading.longest, selection.real_length());
    if (selection.runs().empty()) continue;
    bool follows = selection.runs().front().logical_begin >= last_begin;
    spreading.in_order = spreading.in_order && (follows || !one_axis);
    last_begin = selection.runs().front().logical_begin;
  }
  return spreading;
}

std::vector<std::string> Names(const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

// "over tp", "over ep and tp"
std::string Over(const TensorLayout& tensor, const Mesh& mesh) {
  return fmt::format("over {}", fmt::join(Names(AxesThatCut(tensor, mesh)), " and "));
}

// "in one piece", "in 3 pieces on each rank", "out of order"
std::string Pieces(const Spreading& spreading) {
  if (spreading.most_pieces > 1) return fmt::format("in {} pieces on a rank", spreading.most_pieces);
  if (!spreading.in_order) return "in pieces that do not follow the order of the ranks";
  if (spreading.shortest == spreading.longest) return "in one piece";
  return fmt::format("in one piece of {} to {}", spreading.shortest, spreading.longest);
}

DerivedPattern CutPattern(const std::vector<Spreading>& dims, const std::vector<std::size_t>& cut,
                          const std::string& over) {
  std::size_t first = cut.front();
  auto apart =
      std::find_if(cut.begin(), cut.end(), [&](std::size_t d) { return dims[d].most_pieces > 1 || !dims[d].in_order; });
  if (cut.size() > 1) {
    PaperPattern pattern = apart == cut.end() ? PaperPattern::kShardHy : PaperPattern::kShardNC;
    std::string pieces = apart == cut.end() ? "" : ", " + Pieces(dims[*apart]);
    return {pattern, fmt::format("cut along dimensions {} {}{}", fmt::join(cut, " and "), over, pieces)};
  }
  std::string why = fmt::format("cut along dimension {} {}, {}", first, over, Pieces(dims[first]));
  if (apart != cut.end()) return {PaperPattern::kShardNC, why};
  if (first == 0) return {PaperPattern::kShardV, why};
  if (first + 1 == dims.size()) return {PaperPattern::kShardH, why};
  return {PaperPattern::kShardNC, why + fmt::format("; it is neither the first nor the last of {}", dims.size())};
}

bool CopiesEverything(std::string_view axis) { return axis == "dp" || axis == "edp" || axis == "sp" || axis == "cp"; }

// The axes over which whole copies lie, where those of a view of its own are the tensor's.
std::vector<Axis> AxesOfCopies(const TensorLayout& tensor, const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis& axis : mesh.axes) {
    bool named =
        tensor.axes.empty() || std::find(tensor.axes.begin(), tensor.axes.end(), axis.name) != tensor.axes.end();
    if (!named || axis.size <= 1 || axis.name == "pp" || CopiesEverything(axis.name)) continue;
    auto restricted = tensor.only_at.find(axis.name);
    if (restricted == tensor.only_at.end()) axes.push_back(axis);
    if (restricted != tensor.only_at.end() && restricted->second.size() > 1) {
      axes.push_back({axis.name, static_cast<std::int64_t>(restricted->second.size())});
    }
  }
  return axes;
}

DerivedPattern WholePattern(const TensorLayout& tensor, const Mesh& mesh) {
  std::vector<std::string> where;
  for (const Axis& axis : AxesOfCopies(tensor, mesh))
    where.push_back(fmt::format("{} ranks of {}", axis.size, axis.name));
  if (tensor.stages && tensor.stages->size() > 1) {
    where.push_back(fmt::format("stages {}", fmt::join(*tensor.stages, ", ")));
  }
  if (!where.empty()) return {PaperPattern::kReplicate, fmt::format("whole on {}", fmt::join(where, " and "))};
  if (tensor.stages && mesh.Size("pp") > 1) {
    return {PaperPattern::kUnique, fmt::format("whole on stage {} alone", fmt::join(*tensor.stages, ", "))};
  }
  return {PaperPattern::kUnique, mesh.Size("pp") > 1 ? "whole on the stage that has it" : "whole on one rank"};
}

}  // namespace

std::string_view ToString(PaperPattern pattern) {
  switch (pattern) {
    case PaperPattern::kUnique:
      return "Unique";
    case PaperPattern::kReplicate:
      return "Replicate";
    case PaperPattern::kPartial:
      return "Partial";
    case PaperPattern::kShardV:
      return "Shard-V";
    case PaperPattern::kShardH:
      return "Shard-H";
    case PaperPattern::kShardHy:
      return "Shard-Hy";
    case PaperPattern::kShardNC:
      return "Shard-NC";
  }
  return "";
}

llvm::Expected<DerivedPattern> DerivePattern(const TensorLayout& tensor, const Mesh& mesh,
                                             const std::vector<Holder>& holders) {
  for (const std::string& axis : tensor.mean_axes) {
    if (mesh.Size(axis) == 1) continue;
    return DerivedPattern{PaperPattern::kPartial,
                          fmt::format("the mean of the copies over {}", fmt::join(tensor.mean_axes, " and "))};
  }
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, LogicalShape(tensor));
  std::vector<Spreading> dims;
  std::vector<std::size_t> cut;
  bool one_axis = AxesThatCut(tensor, mesh).size() == 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    dims.push_back(SpreadingOf(holders, d, shape[d], one_axis));
    if (dims.back().cut) cut.push_back(d);
  }
  return cut.empty() ? WholePattern(tensor, mesh) : CutPattern(dims, cut, Over(tensor, mesh));
}

}  // namespace ucp
