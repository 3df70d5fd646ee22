#include "compiler/trial/carry_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/plan/steps.h"
#include "compiler/planner/join.h"
#include "compiler/planner/planner.h"
#include "compiler/support/error.h"
#include "compiler/trial/positions.h"

namespace ucp {
namespace {

using oracle::kNothing;

class Carrier {
 public:
  Carrier(const Plan& plan, const Side& source, const Side& target, const Memory& memory)
      : plan_(plan), source_(source), target_(target), memory_(memory), steps_(plan) {
    for (const auto& record : target.memory) result.memory.emplace_back(record.size(), kNothing);
  }

  void Run() {
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      steps_.ForEachStep(range, [&](const Step& step) { Carry(step, 0, step.source_element, step.target_element); });
    });
  }

  CarriedOut result;

 private:
  void Carry(const Step& step, std::size_t loop, std::int64_t from, std::int64_t to) {
    bool innermost = loop == step.loops.size();
    StepLoop here = innermost ? StepLoop{step.run_elements, 1, 1} : step.loops[loop];
    for (std::int64_t i = 0; i < here.count && result.problem.empty(); ++i) {
      if (innermost) {
        CarryElement(step, from + i, to + i);
      } else {
        Carry(step, loop + 1, from + i * here.source_stride, to + i * here.target_stride);
      }
    }
  }

  void CarryElement(const Step& step, std::int64_t from, std::int64_t to) {
    const std::vector<std::int64_t>& source = memory_[step.source.index()];
    std::vector<std::int64_t>& target = result.memory[step.target.index()];
    auto flaw = [&](const std::string& what) {
      result.problem = fmt::format("`{}` place {} to `{}` place {}: {}", plan_.source.file(step.source).path, from,
                                   plan_.target.file(step.target).path, to, what);
    };
    if (from < 0 || from >= std::ssize(source)) return flaw("reads outside of its record");
    if (to < 0 || to >= std::ssize(target)) return flaw("writes outside of its record");
    std::int64_t read = source[static_cast<std::size_t>(from)];
    std::int64_t& written = target[static_cast<std::size_t>(to)];
    if (read == kNothing) return flaw("reads a place that holds nothing");
    read = WithOffset(read, plan_.tensor(step.tensor).arithmetic.offset);
    // Copies that are averaged are all alike here, and so is their mean: the first is written, the others must be it.
    if (step.role == ReadRole::kCopy && step.term == 0) {
      if (written != kNothing) return flaw("writes twice, over " + Spell(target_.layout, written));
      written = read;
      ++result.copied;
    } else if (written != read) {
      flaw(fmt::format("compares {} with {}", Spell(source_.layout, read), Spell(target_.layout, written)));
    }
  }

  const Plan& plan_;
  const Side& source_;
  const Side& target_;
  const Memory& memory_;
  StepEnumerator steps_;
};

}  // namespace

llvm::Expected<Plan> PlanBetween(const Side& source, const Side& target) {
  Inventory inventory = AsInventory(source);
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, inventory));
  return MakePlan({source.layout, inventory, target.layout, tensors, "trial"}, target.files);
}

CarriedOut CarryOut(const Plan& plan, const Side& source, const Side& target, const Memory& memory) {
  Carrier carrier(plan, source, target, memory);
  carrier.Run();
  return std::move(carrier.result);
}

std::string Spell(const Layout& layout, std::int64_t element) {
  if (element == kNothing) return "nothing";
  ElementName name = NameOf(element);
  const TensorLayout& tensor = layout.tensors[name.tensor];
  std::vector<std::int64_t> index(tensor.dims.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    std::int64_t length = oracle::Length(tensor.dims[d]);
    index[d] = name.index % length;
    name.index /= length;
  }
  const std::string offset = name.offset == 0 ? "" : fmt::format(" {:+}", name.offset);
  return fmt::format("tensor `{}` ({}), element [{}]{}", tensor.name, tensor.declared_at, fmt::join(index, ", "),
                     offset);
}

std::string Difference(const Side& side, const Memory& found) {
  for (std::size_t r = 0; r < side.memory.size(); ++r) {
    for (std::size_t i = 0; i < side.memory[r].size(); ++i) {
      if (side.memory[r][i] == found[r][i]) continue;
      return fmt::format("`{}` place {} should hold {}, and holds {}", side.files.storage.file(RecordId(r)).path, i,
                         Spell(side.layout, side.memory[r][i]), Spell(side.layout, found[r][i]));
    }
  }
  return "";
}

}  // namespace ucp
