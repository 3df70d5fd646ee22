#include "compiler/plan/print.h"

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/plan/entry_text.h"
#include "compiler/plan/steps.h"
#include "compiler/support/check.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// "zero/w/fp32.pt+704[0..64]" or, for a strided place, "…[0 + 4 x 32 + 16]": element begin, then count x stride of each
// loop, then the length of a run.
std::string PlaceText(const StorageTables& tables, RecordId record, std::int64_t element, const Step& step,
                      bool is_source) {
  std::string text = fmt::format("{}+{}[{}", tables.file(record).path, tables.record(record).begin, element);
  if (step.loops.empty()) return text + fmt::format("..{}]", element + step.run_elements);
  for (const StepLoop& loop : step.loops) {
    text += fmt::format(" + {} x {}", loop.count, is_source ? loop.source_stride : loop.target_stride);
  }
  return text + fmt::format(" + {}]", step.run_elements);
}

std::string StateOf(const Plan& plan, const Step& step) {
  for (const PlanWrite& write : plan.writes) {
    const bool has_tensor = std::any_of(write.pieces.begin(), write.pieces.end(),
                                        [&](const WrittenPiece& piece) { return piece.tensor == step.tensor; });
    if (!has_tensor) continue;
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      for (const BufferPart& part : plan.target.buffer(entry.buffer).parts) {
        if (part.record == step.target) return entry.state;
      }
    }
  }
  return "?";
}

// " 2/4": which of how many terms.
std::string TermText(const Plan& plan, const Step& step) {
  std::int64_t terms = plan.tensor(step.tensor).arithmetic.terms;
  return terms == 1 ? "" : fmt::format(" {}/{}", step.term + 1, terms);
}

// ", mean of 4, divided by 1/2, times 1/4, plus -1"
std::string ArithmeticText(const Arithmetic& arithmetic) {
  std::string text;
  if (arithmetic.terms != 1) text += fmt::format(", mean of {}", arithmetic.terms);
  const Scale& divisor = arithmetic.divisor;
  const Scale& factor = arithmetic.factor;
  if (divisor != Scale{}) text += fmt::format(", divided by {}/{}", divisor.numerator, divisor.denominator);
  if (factor != Scale{}) text += fmt::format(", times {}/{}", factor.numerator, factor.denominator);
  if (arithmetic.offset != 0) text += fmt::format(", plus {}", arithmetic.offset);
  return text;
}

std::string StepLine(const Plan& plan, const Step& step, const std::string& state) {
  std::string cast = step.source_dtype == step.target_dtype
                         ? std::string(Name(step.source_dtype))
                         : fmt::format("{} to {}", Name(step.source_dtype), Name(step.target_dtype));
  return fmt::format("{}{} {} {} {}: {} -> {}", Name(step.role), TermText(plan, step),
                     plan.tensor(step.tensor).logical.name, state, cast,
                     PlaceText(plan.source, step.source, step.source_element, step, true),
                     PlaceText(plan.target, step.target, step.target_element, step, false));
}

// "0-1023, 1025": the ranks are ascending.
std::string RanksText(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string Asked(UserOption option, const std::string& value) {
  return fmt::format("asked {} {}", OptionName(option), value);
}

void PrintFile(UserOption option, const NamedText& file, llvm::function_ref<void(const std::string&)> line) {
  line(Asked(option, file.name));
  for (llvm::StringRef left = file.text; !left.empty();) {
    const auto [one, rest] = left.split('\n');
    line(("| " + one).str());
    left = rest;
  }
}

}  // namespace

void PrintInputs(const PlanInputs& inputs, llvm::function_ref<void(const std::string&)> line) {
  if (!inputs.source_strategy.empty()) line(Asked(UserOption::kFrom, inputs.source_strategy));
  line(Asked(UserOption::kTo, inputs.target));
  for (const NamedText& file : inputs.spec) PrintFile(UserOption::kSpec, file, line);
  if (inputs.config) PrintFile(UserOption::kConfig, *inputs.config, line);
  if (inputs.ds_config) PrintFile(UserOption::kDsConfig, *inputs.ds_config, line);
  const std::pair<UserOption, const std::vector<std::string>&> repeated[] = {
      {UserOption::kSets, inputs.set},
      {UserOption::kUnused, inputs.unused},
      {UserOption::kDropStates, inputs.drop_states},
      {UserOption::kKeepOpaque, inputs.keep_opaque}};
  for (const auto& [option, values] : repeated) {
    for (const std::string& value : values) line(Asked(option, value));
  }
  if (!inputs.tag.empty()) line(Asked(UserOption::kTag, inputs.tag));
  if (inputs.trusts_replicas) line(Asked(UserOption::kReplicas, "trust"));
}

std::string ReadersText(const Plan& plan, FileId file) {
  if (plan.readers.set_of_file.empty() || plan.readers.Of(file).empty()) return "";
  const std::vector<int>& ranks = plan.readers.Of(file);
  return fmt::format(", for rank{} {} of {}", ranks.size() == 1 ? "" : "s", RanksText(ranks), plan.readers.ranks);
}

std::string_view Name(ReadRole role) {
  switch (role) {
    case ReadRole::kCopy:
      return "copy";
    case ReadRole::kCompare:
      return "compare";
    case ReadRole::kCheckRounding:
      return "check";
    case ReadRole::kUnused:
      return "unused";
  }
  UCP_UNREACHABLE();
}

std::string ToString(const Plan& plan, const Step& step) { return StepLine(plan, step, StateOf(plan, step)); }

void PrintPlan(const Plan& plan, llvm::function_ref<void(const std::string&)> line) {
  line(fmt::format("plan {} -> {}, by ucp {}", plan.source_format, plan.target_format, plan.tool_version));
  line(fmt::format("source mesh {}", ToString(plan.source_mesh)));
  line(fmt::format("target mesh {}", ToString(plan.target_mesh)));
  line(fmt::format("spec {}", plan.spec_hash.empty() ? "none" : plan.spec_hash));
  for (const StoredFile& file : plan.source.files) {
    line(fmt::format("read {} {} bytes, header {}", file.path, file.bytes, file.header_hash));
  }
  for (std::size_t f = 0; f < plan.target.files.size(); ++f) {
    const StoredFile& file = plan.target.files[f];
    line(fmt::format("write {} {} bytes{}", file.path, file.bytes, ReadersText(plan, FileId(f))));
  }
  for (const BlobPlacement& placement : plan.placements) {
    line(fmt::format("blob {}+{} {} bytes", plan.target.files[placement.file.index()].path, placement.offset,
                     plan.blobs[placement.blob.index()].size()));
  }
  for (const PlanTensor& tensor : plan.tensors) {
    line(fmt::format("tensor {} [{}] by {}{}", tensor.logical.name, fmt::join(tensor.logical.shape, ", "),
                     tensor.declared_at, ArithmeticText(tensor.arithmetic)));
  }
  for (const PlanWrite& write : plan.writes) {
    if (write.fused) line(EntryText(plan, write));
  }
  for (const PlanRead& read : plan.reads) {
    if (read.role != ReadRole::kUnused) continue;
    line(fmt::format("unused {} at {}: {}", plan.tensor(read.tensor).logical.name, ToString(read.coordinate),
                     read.reason));
  }
  StepEnumerator steps(plan);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    steps.ForEachStep(range, [&](const Step& step) { line(StepLine(plan, step, range.state)); });
  });
}

}  // namespace ucp
