#include "compiler/infer/number_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ucp {
namespace {

struct Named {
  const char* name;
  bool counts;
  std::vector<const char*> paths;
};

// The words that Hugging Face configurations and Megatron's arguments use.
const std::vector<Named>& Table() {
  static const std::vector<Named> table = {
      {"hidden", false, {"config.hidden_size", "config.n_embd", "config.d_model", "args.hidden_size"}},
      {"ffn", false, {"config.intermediate_size", "config.ffn_dim", "config.n_inner", "args.ffn_hidden_size"}},
      {"vocab", false, {"info.original_vocab_size", "config.vocab_size"}},
      {"seq", false, {"config.max_position_embeddings", "config.n_positions", "args.max_position_embeddings"}},
      {"expert_ffn", false, {"config.moe_intermediate_size", "args.moe_ffn_hidden_size"}},
      {"layers", true, {"config.num_hidden_layers", "config.n_layer", "args.num_layers"}},
      {"heads", true, {"config.num_attention_heads", "config.n_head", "args.num_attention_heads"}},
      {"kv_heads", true, {"config.num_key_value_heads", "args.num_query_groups", "args.num_key_value_heads"}},
      {"experts", true, {"config.num_local_experts", "config.num_experts", "config.n_routed_experts"}},
  };
  return table;
}

}  // namespace

NumberNames::NumberNames(const std::map<std::string, Fact>& facts) {
  for (const Named& named : Table()) {
    for (const char* path : named.paths) {
      auto fact = facts.find(path);
      if (fact == facts.end()) continue;
      const auto* value = std::get_if<std::int64_t>(&fact->second.value.value);
      if (value == nullptr || *value < 2) continue;
      known_.push_back({named.name, path, *value, named.counts});
      break;
    }
  }
}

std::string NumberNames::Use(const Known& known) {
  used_.insert(known.name);
  return known.name;
}

// A factor that is cut has to be the right one of two equal numbers; a length that is whole may bear any name.
std::string NumberNames::Length(std::int64_t number, bool cut, std::string& note) {
  std::vector<const Known*> names;
  std::vector<std::string> readings;
  std::int64_t head = 0;
  auto value_of = [&](const char* name) -> std::int64_t {
    auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.name == name; });
    return found == known_.end() ? 0 : found->value;
  };
  for (const Known& known : known_) {
    if (known.counts || known.value != number) continue;
    names.push_back(&known);
    readings.push_back(known.name);
  }
  std::int64_t hidden = value_of("hidden");
  std::int64_t heads = value_of("heads");
  if (heads != 0 && hidden % heads == 0) head = hidden / heads;
  for (const char* count : {"heads", "kv_heads"}) {
    if (cut && head > 1 && value_of(count) != 0 && value_of(count) * head == number) {
      readings.push_back(fmt::format("{} * {}", count, head));
    }
  }
  if (readings.size() > 1 && cut) {
    note = fmt::format("{} is {}: write the factor that is cut", number, fmt::join(readings, ", or "));
    return std::to_string(number);
  }
  return names.empty() ? std::to_string(number) : Use(*names.front());
}

std::string NumberNames::Count(std::int64_t number) {
  for (const Known& known : known_) {
    bool counts = known.name == "layers" || known.name == "experts";
    if (counts && known.value == number) return Use(known);
  }
  return std::to_string(number);
}

std::string NumberNames::Vocabulary(std::int64_t number) {
  for (const Known& known : known_) {
    if (known.name == "vocab" && known.value == number) return Use(known);
  }
  return std::to_string(number);
}

// A cut factor behind a number stands in parentheses: that is deliberate (docs/language.md, Shapes).
std::string NumberNames::Operand(const ShapeExpr& expr, std::int64_t tp, bool cut, std::string& note) {
  std::string text = Shape(expr, tp, note);
  bool simple = expr.kind == ShapeExpr::Kind::kLength || expr.kind == ShapeExpr::Kind::kPad;
  if (simple && expr.kind == ShapeExpr::Kind::kLength) return Length(expr.number, cut, note);
  return simple ? text : "(" + text + ")";
}

std::string NumberNames::Shape(const ShapeExpr& expr, std::int64_t tp, std::string& note) {
  std::string text;
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
      return Length(expr.number, false, note);
    case ShapeExpr::Kind::kPad: {
      const std::string length = Vocabulary(expr.operands[0].number);
      return expr.number % tp == 0 ? fmt::format("pad({}, {} * tp)", length, expr.number / tp)
                                   : fmt::format("pad({}, {})", length, expr.number);
    }
    case ShapeExpr::Kind::kProduct:
      for (std::size_t i = 0; i < expr.operands.size(); ++i) {
        const ShapeExpr& factor = expr.operands[i];
        bool grouped = factor.kind == ShapeExpr::Kind::kSum || (factor.kind == ShapeExpr::Kind::kCut && i > 0);
        std::string one =
            factor.kind == ShapeExpr::Kind::kLength ? std::to_string(factor.number) : Shape(factor, tp, note);
        text += fmt::format("{}{}", i == 0 ? "" : " * ", grouped ? "(" + one + ")" : one);
      }
      return text;
    case ShapeExpr::Kind::kSum:
      for (const ShapeExpr& part : expr.operands)
        text += fmt::format("{}{}", text.empty() ? "" : " + ", Shape(part, tp, note));
      return text;
    case ShapeExpr::Kind::kCut:
      text = Operand(expr.operands[0], tp, true, note) + "@" + fmt::format("{}", fmt::join(expr.axes, ", "));
      switch (expr.rule) {
        case CutRule::kEven:
          return text;
        case CutRule::kChunk:
          return text + "(chunk)";
        case CutRule::kSpread:
          return text + (expr.grain == 1 ? "(spread)" : fmt::format("(spread {})", expr.grain));
        case CutRule::kReplicate:
          return text + "(replicate)";
        case CutRule::kWidths:
          return text + fmt::format("(widths [{}])", fmt::join(expr.widths, ", "));
        case CutRule::kList: {
          std::vector<std::string> lists;
          for (const auto& list : expr.lists) lists.push_back(fmt::format("[{}]", fmt::join(list, ", ")));
          return text + fmt::format("(list [{}])", fmt::join(lists, ", "));
        }
      }
  }
  return text;
}

std::vector<std::string> NumberNames::Declarations() const {
  std::vector<std::string> lines;
  for (const Known& known : known_) {
    if (used_.contains(known.name)) lines.push_back(fmt::format("dim {} from {}", known.name, known.path));
  }
  return lines;
}

}  // namespace ucp
