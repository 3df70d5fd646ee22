#include "tests/golden/golden_case.h"

#include <fmt/format.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"

namespace ucp::golden {
namespace {

constexpr std::string_view kOutputMark = "// output:";
constexpr std::string_view kPhaseMark = "// phase: ";
constexpr std::array<std::string_view, 4> kExpectationMarks = {"// error: ", "// warning: ", "// note: ", "// hint: "};

std::string_view TrimLeft(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool IsExpectation(std::string_view line) {
  std::string_view text = TrimLeft(line);
  return std::any_of(kExpectationMarks.begin(), kExpectationMarks.end(),
                     [&](std::string_view mark) { return text.substr(0, mark.size()) == mark; });
}

std::string WithoutExpectations(std::string_view text) {
  std::string spec;
  for (std::string_view line : SplitLines(text)) {
    if (line == kOutputMark) break;
    if (!IsExpectation(line)) spec += fmt::format("{}\n", line);
  }
  while (spec.size() >= 2 && spec.ends_with("\n\n")) spec.pop_back();
  return spec;
}

std::string DescribeDiagnostic(const Source& spec, const Diagnostic& diagnostic, std::string_view indent) {
  const DiagnosticKindInfo& info = Describe(diagnostic.kind);
  std::string where = diagnostic.place.elsewhere;
  if (diagnostic.place.in_spec()) {
    LineColumn begin = spec.Locate(diagnostic.place.range.begin);
    LineColumn end = spec.Locate(diagnostic.place.range.end);
    std::string lines_down = end.line == begin.line ? "" : fmt::format("+{}:", end.line - begin.line);
    where = fmt::format("{}..{}{}", begin.column, lines_down, end.column);
  }
  std::string text =
      fmt::format("{}// {}: {}: {} [{}]\n", indent, info.severity == Severity::kError ? "error" : "warning", where,
                  diagnostic.message, info.name);
  for (const Note& note : diagnostic.notes) {
    std::string at = note.place.in_spec() ? fmt::format("`{}`", spec.TextOf(note.place.range)) : note.place.elsewhere;
    std::replace(at.begin(), at.end(), '\n', ' ');
    text += fmt::format("{}// note: {}: {}\n", indent, at, note.message);
  }
  for (std::string_view line : SplitLines(diagnostic.hint)) text += fmt::format("{}// hint: {}\n", indent, line);
  return text;
}

}  // namespace

llvm::Expected<GoldenCase> ReadGoldenCase(const std::string& path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return Fail(ErrorCode::kIo, "cannot read `{}`: {}", path, buffer.getError().message());
  GoldenCase golden{.path = path, .text = (*buffer)->getBuffer().str(), .spec = {}, .phase = {}, .arguments = {}};
  std::vector<std::string_view> lines = SplitLines(golden.text);
  if (lines.empty() || !lines[0].starts_with("// ") || !lines[0].ends_with(".")) {
    return Fail(ErrorCode::kSpec, "`{}` does not begin with a comment of one sentence", path);
  }
  auto phase_line = std::find_if(lines.begin(), lines.end(), [](auto line) { return line.starts_with(kPhaseMark); });
  if (phase_line == lines.end()) return Fail(ErrorCode::kSpec, "`{}` has no line `// phase: NAME`", path);
  std::string_view phase = phase_line->substr(kPhaseMark.size());
  std::size_t blank = std::min(phase.find(' '), phase.size());
  golden.phase = phase.substr(0, blank);
  golden.arguments = TrimLeft(phase.substr(blank));
  golden.spec = WithoutExpectations(golden.text);
  return golden;
}

std::string WriteExpectations(const Source& spec, const DiagnosticSink& sink, const std::string& output) {
  std::vector<std::string_view> lines = SplitLines(spec.text());
  std::map<std::size_t, std::string> above;  // By index of the line; what is elsewhere stands below the phase.
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    std::size_t line = diagnostic.place.in_spec() ? spec.Locate(diagnostic.place.range.begin).line - 1 : 2;
    std::string_view shown = line < lines.size() ? lines[line] : "";
    std::string_view indent = shown.substr(0, shown.size() - TrimLeft(shown).size());
    above[std::min(line, lines.size())] += DescribeDiagnostic(spec, diagnostic, indent);
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) text += fmt::format("{}{}\n", above[i], lines[i]);
  text += above[lines.size()];
  if (output.empty()) return text;
  text += fmt::format("\n{}\n", kOutputMark);
  for (std::string_view line : SplitLines(output)) text += line.empty() ? "//\n" : fmt::format("// {}\n", line);
  return text;
}

}  // namespace ucp::golden
