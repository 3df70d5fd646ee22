#include "runtime/trace/trace_report.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/plan/print.h"
#include "compiler/support/check.h"
#include "compiler/support/units.h"
#include "runtime/elements/element_text.h"

namespace ucp {
namespace {

// Its place in the row-major whole tensor.
std::uint64_t NumberOf(const Index& index, const std::vector<std::int64_t>& shape) {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    number = number * static_cast<std::uint64_t>(shape[d]) + static_cast<std::uint64_t>(index[d]);
  }
  return number;
}

std::string AgreementText(const ElementCopy& copy) {
  switch (copy.agreement) {
    case Agreement::kIsTaken:
      return "";
    case Agreement::kAgrees:
      return copy.role == ReadRole::kCheckRounding ? "the rounding of its master" : "the same";
    case Agreement::kDiffers: {
      std::string text = copy.role == ReadRole::kCheckRounding ? "not the rounding of its master" : "not the same";
      return copy.is_overruled ? text + ", and overruled" : text;
    }
    case Agreement::kNotAsked:
      return copy.role == ReadRole::kUnused ? copy.reason : "not compared";
  }
  UCP_UNREACHABLE();
}

std::string RoleText(const ElementCopy& copy, std::int64_t terms) {
  const std::string role(Name(copy.role));
  return terms == 1 || copy.role == ReadRole::kUnused ? role : fmt::format("{} {}/{}", role, copy.term + 1, terms);
}

// The steps between reading and writing, in this order.
std::vector<std::string> Operations(const Arithmetic& arithmetic, const WrittenElement& written) {
  std::vector<std::string> operations;
  const Scale& divisor = arithmetic.divisor;
  const Scale& factor = arithmetic.factor;
  if (arithmetic.terms > 1) operations.push_back(fmt::format("mean of {}", arithmetic.terms));
  if (divisor != Scale{}) operations.push_back(fmt::format("divided by {}/{}", divisor.numerator, divisor.denominator));
  if (factor != Scale{}) operations.push_back(fmt::format("times {}/{}", factor.numerator, factor.denominator));
  if (arithmetic.offset != 0 && FollowsOffset(written.state)) {
    operations.push_back(fmt::format("plus {}", arithmetic.offset));
  }
  if (written.from_dtype != written.place.dtype) {
    operations.push_back(fmt::format("cast from {} to {}", Name(written.from_dtype), Name(written.place.dtype)));
  }
  return operations;
}

std::string PlaceText(const ElementPlace& place, const Mesh& mesh) {
  const std::string rank = RankText(place, mesh);
  return fmt::format("{} byte {}{}{}", place.file, place.offset, rank.empty() ? "" : ", ", rank);
}

// Cells of one column are as wide as the widest.
std::vector<std::string> Aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<std::string> lines;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) line += fmt::format("  {:<{}}", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void AddSource(const TraceReport& report, std::vector<std::string>& lines) {
  const std::int64_t terms = report.plan.tensor(report.tensor).arithmetic.terms;
  std::vector<std::vector<std::string>> rows;
  for (const TracedState& state : report.trace.states) {
    for (const ElementCopy& copy : state.copies) {
      std::string place = PlaceText(copy.place, report.plan.source_mesh);
      const std::string agreement = AgreementText(copy);
      if (!agreement.empty()) place += fmt::format(": {}", agreement);
      rows.push_back({state.state, RoleText(copy, terms), ElementText(copy.place.dtype, copy.bytes.data()),
                      std::string(Name(copy.place.dtype)), std::move(place)});
    }
  }
  lines.push_back(fmt::format("source   {}", report.plan.source_format));
  for (std::string& line : Aligned(rows)) lines.push_back(std::move(line));
}

void AddTarget(const TraceReport& report, std::vector<std::string>& lines) {
  const Arithmetic& arithmetic = report.plan.tensor(report.tensor).arithmetic;
  std::vector<std::vector<std::string>> rows;
  for (const WrittenElement& written : report.trace.written) {
    std::string how = "from " + written.from;
    for (const std::string& operation : Operations(arithmetic, written)) how += ", " + operation;
    rows.push_back({written.state, how, ElementText(written.place.dtype, written.bytes.data()),
                    std::string(Name(written.place.dtype)), PlaceText(written.place, report.plan.target_mesh)});
  }
  lines.push_back(fmt::format("target   {}", report.plan.target_format));
  for (std::string& line : Aligned(rows)) lines.push_back(std::move(line));
}

llvm::json::Object PlaceJson(const ElementPlace& place, const Mesh& mesh, const std::vector<std::byte>& bytes) {
  llvm::json::Object rank;
  for (const auto& [axis, at] : place.coordinate.at) rank[axis] = at;
  if (std::optional<std::string> axis = AxisOfParts(place, mesh)) rank[*axis] = place.part;
  return llvm::json::Object{{"file", place.file},
                            {"offset", place.offset},
                            {"rank", std::move(rank)},
                            {"part", place.part},
                            {"parts", place.parts},
                            {"dtype", std::string(Name(place.dtype))},
                            {"value", ElementText(place.dtype, bytes.data())}};
}

}  // namespace

std::uint64_t CountDifferences(const ElementTrace& trace) {
  std::uint64_t count = 0;
  for (const TracedState& state : trace.states) {
    for (const ElementCopy& copy : state.copies) {
      if (copy.agreement == Agreement::kDiffers && !copy.is_overruled) ++count;
    }
  }
  return count;
}

std::vector<std::string> TraceLines(const TraceReport& report) {
  const PlanTensor& tensor = report.plan.tensor(report.tensor);
  const std::vector<std::int64_t>& shape = tensor.logical.shape;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("tensor   {} [{}], {}", tensor.logical.name, fmt::join(shape, ", "), tensor.declared_at));
  lines.push_back(fmt::format("element  [{}], number {} of the tensor", fmt::join(report.index, ", "),
                              WithThousands(NumberOf(report.index, shape))));
  AddSource(report, lines);
  if (report.has_target) AddTarget(report, lines);
  const std::uint64_t differences = CountDifferences(report.trace);
  lines.push_back(differences == 0 ? "copies   all that are compared agree"
                                   : fmt::format("copies   {} not what it should be",
                                                 differences == 1 ? "1 is" : fmt::format("{} are", differences)));
  return lines;
}

llvm::json::Object TraceJson(const TraceReport& report) {
  const PlanTensor& tensor = report.plan.tensor(report.tensor);
  llvm::json::Array source;
  for (const TracedState& state : report.trace.states) {
    for (const ElementCopy& copy : state.copies) {
      llvm::json::Object entry = PlaceJson(copy.place, report.plan.source_mesh, copy.bytes);
      entry["state"] = state.state;
      entry["role"] = std::string(Name(copy.role));
      entry["term"] = copy.term;
      entry["note"] = AgreementText(copy);
      if (copy.agreement == Agreement::kAgrees || copy.agreement == Agreement::kDiffers) {
        entry["agrees"] = copy.agreement == Agreement::kAgrees;
      }
      source.push_back(std::move(entry));
    }
  }
  llvm::json::Object json{{"tensor", tensor.logical.name},
                          {"shape", llvm::json::Array(tensor.logical.shape)},
                          {"declared", tensor.declared_at},
                          {"index", llvm::json::Array(report.index)},
                          {"number", NumberOf(report.index, tensor.logical.shape)},
                          {"source_format", report.plan.source_format},
                          {"source", std::move(source)},
                          {"differences", CountDifferences(report.trace)}};
  if (!report.has_target) return json;
  llvm::json::Array target;
  for (const WrittenElement& written : report.trace.written) {
    llvm::json::Object entry = PlaceJson(written.place, report.plan.target_mesh, written.bytes);
    entry["state"] = written.state;
    entry["from"] = written.from;
    entry["operations"] = llvm::json::Array(Operations(tensor.arithmetic, written));
    target.push_back(std::move(entry));
  }
  json["target_format"] = report.plan.target_format;
  json["target"] = std::move(target);
  return json;
}

}  // namespace ucp
