// Executes a plan one element at a time, and says what a plan claims about its source and its target.
#include "tests/unit/compiler/planner/oracle.h"

#include <fmt/format.h>
#include <algorithm>
#include <span>
#include <tuple>
#include "compiler/plan/steps.h"

namespace ucp::oracle {
namespace {

// Visits source and target place of every element of a step.
template <typename Visit>
void EachElement(const Step& step, std::size_t loop, std::int64_t source, std::int64_t target, Visit& visit) {
  if (loop == step.loops.size()) {
    for (std::int64_t i = 0; i < step.run_elements; ++i) visit(source + i, target + i);
    return;
  }
  for (std::int64_t i = 0; i < step.loops[loop].count; ++i) {
    EachElement(step, loop + 1, source + i * step.loops[loop].source_stride,
                target + i * step.loops[loop].target_stride, visit);
  }
}

// The box that a step is from is known by where its progressions stand: within one box they are walked in order,
// rightmost fastest, so the leftmost that changes moves on by one.
bool IsSameBox(const std::vector<const Progression*>& before, llvm::ArrayRef<const Progression*> now) {
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (before[d] != now[d]) return now[d] == before[d] + 1;
  }
  return false;
}

class Execution {
 public:
  Execution(const Plan& plan, const Memory& source, Steps form)
      : plan_(plan), source_(source), form_(form), steps_(plan) {
    for (const Record& record : plan.target.records) {
      outcome.target.emplace_back(static_cast<std::size_t>(record.bytes), kNothing);
    }
    // Records are counted in elements once a buffer says of which type.
    for (const Buffer& buffer : plan.target.buffers) {
      for (const BufferPart& part : buffer.parts) {
        outcome.target[part.record.index()].resize(plan.target.record(part.record).bytes /
                                                   static_cast<std::uint64_t>(ItemBytes(buffer.dtype)));
      }
    }
  }

  void Run(const TargetRange& range) {
    std::vector<const Progression*> box;
    std::tuple<std::size_t, std::size_t, RecordId> pair;
    std::size_t boxes = 0;
    auto visit = [&](const Step& step) {
      ++outcome.steps;
      std::tuple other(step.read, step.piece, step.source);
      bool same_pair = boxes != 0 && pair == other;
      if (!same_pair) boxes = 0;
      if (!same_pair || !IsSameBox(box, step.box)) ++boxes;
      pair = other;
      box.assign(step.box.begin(), step.box.end());
      outcome.most_boxes_of_a_pair = std::max(outcome.most_boxes_of_a_pair, boxes);
      Apply(step, range);
    };
    if (form_ == Steps::kOfBoxes) steps_.ForEachStep(range, visit);
    if (form_ == Steps::kJoined) steps_.ForEachJoinedStep(range, visit);
  }

  Outcome outcome;

 private:
  void Apply(const Step& step, const TargetRange& range) {
    auto visit = [&](std::int64_t from, std::int64_t to) {
      if (!outcome.problem.empty()) return;
      outcome.problem = ApplyElement(step, range, from, to);
    };
    EachElement(step, 0, step.source_element, step.target_element, visit);
  }

  std::string ApplyElement(const Step& step, const TargetRange& range, std::int64_t from, std::int64_t to) {
    const std::vector<Element>& source = source_[step.source.index()];
    std::vector<Element>& target = outcome.target[step.target.index()];
    auto flaw = [&](const std::string& what) {
      return fmt::format("`{}` place {} -> `{}` place {}: {}", plan_.source.file(step.source).path, from,
                         plan_.target.file(step.target).path, to, what);
    };
    if (from < 0 || from >= std::ssize(source)) return flaw("reads outside of its record");
    if (to < range.record_element || to >= range.record_element + range.end - range.begin) {
      return flaw("writes outside of its range");
    }
    Element read = source[static_cast<std::size_t>(from)];
    Element& written = target[static_cast<std::size_t>(to)];
    if (read == kNothing) return flaw("reads a place that holds nothing");
    switch (step.role) {
      case ReadRole::kCopy:
        if (step.term == 0 && written != kNothing) return flaw("writes twice, over " + Spell(written));
        if (step.term != 0 && AsTerm(written, 1) != read) return flaw("adds " + Spell(read) + " to " + Spell(written));
        written = read;
        return "";
      case ReadRole::kCompare:
        return written == read ? "" : flaw("compares " + Spell(read) + " with " + Spell(written));
      case ReadRole::kCheckRounding: {
        Element identity = Identity(1, 0, 0) - 1;
        bool same = written >> 56 == 1 && (written & identity) == (read & identity) && read >> 56 == 2;
        return same ? "" : flaw("checks " + Spell(read) + " with " + Spell(written));
      }
      case ReadRole::kUnused:
        return flaw("is a step of an unused shard");
    }
    return "";
  }

  const Plan& plan_;
  const Memory& source_;
  const Steps form_;
  StepEnumerator steps_;
};

}  // namespace

Outcome Execute(const Plan& plan, const Memory& source, std::int64_t chunk, Steps form) {
  Execution execution(plan, source, form);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    std::int64_t size = chunk == 0 ? range.end - range.begin : chunk;
    for (std::int64_t begin = range.begin; begin < range.end; begin += size) {
      TargetRange part = range;
      part.begin = begin;
      part.end = std::min(range.end, begin + size);
      part.record_element = range.record_element + (begin - range.begin);
      execution.Run(part);
    }
  });
  return std::move(execution.outcome);
}

std::string FlawOfCasts(const Plan& plan) {
  auto is_number = [](DType dtype) {
    return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
           dtype == DType::kFloat64;
  };
  std::string flaw;
  StepEnumerator enumerator(plan);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    enumerator.ForEachStep(range, [&](const Step& step) {
      if (step.role == ReadRole::kCheckRounding) return;  // Where types cannot be checked, the executor says so.
      bool is_same = step.source_dtype == range.source_dtype;
      bool is_cast = step.source_dtype != step.target_dtype;
      bool can_be = is_number(step.source_dtype) && is_number(step.target_dtype);
      if (is_same && step.target_dtype == range.dtype && (!is_cast || can_be)) return;
      flaw = fmt::format("a step of `{}` takes {} to {} where {} becomes {}", range.state, Name(step.source_dtype),
                         Name(step.target_dtype), Name(range.source_dtype), Name(range.dtype));
    });
  });
  return flaw;
}

std::string Difference(const StorageTables& tables, const Memory& expected, const Memory& found) {
  if (expected.size() != found.size()) return fmt::format("{} records, and not {}", found.size(), expected.size());
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const std::string& path = tables.file(RecordId(r)).path;
    if (expected[r].size() != found[r].size()) {
      return fmt::format("`{}` has {} places, and not {}", path, found[r].size(), expected[r].size());
    }
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      if (expected[r][i] == found[r][i]) continue;
      return fmt::format("`{}` place {} should hold {} and holds {}", path, i, Spell(expected[r][i]),
                         Spell(found[r][i]));
    }
  }
  return "";
}

namespace {

// The logical row-major indices of a product set, from its runs.
List IndicesOf(const ProductSet& set, const std::vector<std::int64_t>& shape) {
  List indices = {0};
  for (std::size_t d = 0; d < set.dims.size(); ++d) {
    List dim(static_cast<std::size_t>(set.dims[d].local_length()), kNothing);
    for (const Run& run : set.dims[d].runs()) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        dim[static_cast<std::size_t>(run.local_begin + i)] = run.logical_begin + i;
      }
    }
    indices = ProductOf(indices, dim, shape[d]);
  }
  return indices;
}

struct Claim {
  TensorId tensor;
  std::int64_t term;
  SetId set;
  BufferSetId states;
  std::int64_t base;
  Spread spread;
  std::vector<std::int64_t> strides;
  std::int64_t begin = 0;                     // Of a piece in its shard.
  std::optional<std::int64_t> elements = {};  // Of that shard; nothing: the set's.
};

bool Has(const BufferSet& set, const std::string& state) {
  return std::any_of(set.begin(), set.end(), [&](const StateBuffer& entry) { return entry.state == state; });
}

bool IsWritten(const Plan& plan, TensorId tensor, const std::string& state) {
  return std::any_of(plan.writes.begin(), plan.writes.end(), [&](const PlanWrite& write) {
    auto is_of_tensor = [&](const WrittenPiece& piece) { return piece.tensor == tensor; };
    return std::any_of(write.pieces.begin(), write.pieces.end(), is_of_tensor) &&
           Has(plan.target.buffer_set(write.states), state);
  });
}

// Of the source only what the target asks for: a weight is made of the master, and else is the source's own.
std::optional<Element> StateInSource(const Plan& plan, TensorId tensor, const BufferSet& set, const StateBuffer& at) {
  bool makes_weight = IsWritten(plan, tensor, "weight");
  if (at.state == "weight") return makes_weight && !Has(set, "fp32") ? std::optional<Element>(2) : std::nullopt;
  if (!IsWritten(plan, tensor, at.state) && !(at.state == "fp32" && makes_weight)) return std::nullopt;
  return at.state == "fp32" ? 1 : 0;
}

Element StateInTarget(const Plan& plan, TensorId tensor, const StateBuffer& at) {
  if (at.state != "weight") return at.state == "fp32" ? 1 : 0;
  bool has_master = std::any_of(plan.reads.begin(), plan.reads.end(), [&](const PlanRead& read) {
    bool is_copied = read.tensor == tensor && read.role == ReadRole::kCopy;
    return is_copied && Has(plan.source.buffer_set(read.states), "fp32");
  });
  return has_master ? 1 : 2;
}

class Claims {
 public:
  Claims(const Plan& plan, const StorageTables& tables) : plan_(plan), tables_(tables) {
    memory.resize(tables.records.size());
    for (std::size_t r = 0; r < memory.size(); ++r) memory[r].assign(tables.records[r].bytes, kNothing);
    for (const Buffer& buffer : tables.buffers) {
      for (const BufferPart& part : buffer.parts) {
        memory[part.record.index()].resize(tables.record(part.record).bytes /
                                           static_cast<std::uint64_t>(ItemBytes(buffer.dtype)));
      }
    }
  }

  bool Add(const Claim& claim) {
    const LogicalTensor& tensor = plan_.tensor(claim.tensor).logical;
    List indices = IndicesOf(plan_.set(claim.set), tensor.shape);
    for (const StateBuffer& entry : tables_.buffer_set(claim.states)) {
      std::optional<Element> state = &tables_ == &plan_.source
                                         ? StateInSource(plan_, claim.tensor, tables_.buffer_set(claim.states), entry)
                                         : StateInTarget(plan_, claim.tensor, entry);
      if (!state) continue;
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] < 0) continue;
        Element element =
            AsTerm(Identity(*state, static_cast<std::int64_t>(claim.tensor.index()), indices[i]), claim.term);
        if (!Put(claim, tables_.buffer(entry.buffer), static_cast<std::int64_t>(i),
                 claim.elements.value_or(std::ssize(indices)), element)) {
          return false;
        }
      }
    }
    return true;
  }

  Memory memory;

 private:
  bool Put(const Claim& claim, const Buffer& buffer, std::int64_t local, std::int64_t elements, Element element) {
    local = claim.begin + Distance(claim, local);
    std::int64_t place = claim.base + local;
    std::int64_t part = 0;
    auto ranks = static_cast<std::int64_t>(buffer.parts.size());
    if (ranks > 1 && claim.spread == Spread::kAcrossBuffer) {
      part = place / buffer.part_elements;
      place %= buffer.part_elements;
    } else if (ranks > 1) {
      std::int64_t each = (elements + ranks - 1) / ranks;
      part = local / each;
      place = claim.base + local % each;
    }
    if (part >= ranks || place >= buffer.parts[static_cast<std::size_t>(part)].elements) return false;
    const BufferPart& held = buffer.parts[static_cast<std::size_t>(part)];
    Element& at = memory[held.record.index()][static_cast<std::size_t>(held.first_element + place)];
    if (at != kNothing && at != element) return false;
    at = element;
    return true;
  }

  std::int64_t Distance(const Claim& claim, std::int64_t local) const {
    if (claim.strides.empty()) return local;
    std::int64_t distance = 0;
    std::vector<std::int64_t> shape = plan_.set(claim.set).LocalShape();
    for (std::size_t d = shape.size(); d-- > 0;) {
      distance += local % shape[d] * claim.strides[d];
      local /= shape[d];
    }
    return distance;
  }

  const Plan& plan_;
  const StorageTables& tables_;
};

}  // namespace

std::optional<Memory> SourceAsThePlanSays(const Plan& plan) {
  Claims claims(plan, plan.source);
  for (const PlanRead& read : plan.reads) {
    if (read.role != ReadRole::kCopy) continue;
    if (!claims.Add({read.tensor, read.term, read.set, read.states, read.base, read.spread, read.strides}))
      return std::nullopt;
  }
  return std::move(claims.memory);
}

std::optional<Memory> TargetAsThePlanSays(const Plan& plan) {
  Claims claims(plan, plan.target);
  for (const PlanWrite& write : plan.writes) {
    std::int64_t elements = 1;
    for (std::int64_t length : plan.LocalShape(write)) elements *= length;
    for (const WrittenPiece& piece : write.pieces) {
      if (!claims.Add({piece.tensor, plan.tensor(piece.tensor).arithmetic.terms - 1, piece.set, write.states,
                       write.base, write.spread, piece.strides, piece.begin, elements})) {
        return std::nullopt;
      }
    }
  }
  return std::move(claims.memory);
}

}  // namespace ucp::oracle
