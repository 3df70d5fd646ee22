#include "compiler/infer/number_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compiler/infer/lift.h"

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
      {"head", false, {"config.head_dim", "args.kv_channels"}},
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

std::string NumberNames::Length(std::int64_t number) {
  auto found = std::ranges::find_if(known_, [&](const Known& known) { return !known.counts && known.value == number; });
  return found == known_.end() ? std::to_string(number) : Use(*found);
}

std::int64_t NumberNames::ValueOf(std::string_view name) const {
  auto found = std::ranges::find_if(known_, [&](const Known& known) { return known.name == name; });
  return found == known_.end() ? 0 : found->value;
}

std::int64_t NumberNames::HeadSize() const {
  if (const std::int64_t head = ValueOf("head"); head != 0) return head;
  const std::int64_t heads = ValueOf("heads");
  return heads != 0 && ValueOf("hidden") % heads == 0 ? ValueOf("hidden") / heads : 0;
}

// The largest units first.
std::vector<NumberNames::Units> NumberNames::UnitsOf(std::int64_t number) const {
  std::vector<Units> found;
  const std::int64_t head = HeadSize();
  for (const Known& known : known_) {
    const bool is_of_heads = known.name == "heads" || known.name == "kv_heads";
    if (is_of_heads && head > 1 && known.value * head == number) found.push_back({&known, head});
  }
  for (const Known& known : known_) {
    if (!known.counts && known.name != "head" && known.value == number) found.push_back({&known, 1});
  }
  return found;
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

static std::string CutText(const std::string& what, const ShapeExpr& cut) {
  std::string text = fmt::format("{}@{}", what, fmt::join(cut.axes, ", "));
  switch (cut.rule) {
    case CutRule::kEven:
      return text;
    case CutRule::kChunk:
      return text + "(chunk)";
    case CutRule::kSpread:
      return text + (cut.grain == 1 ? "(spread)" : fmt::format("(spread {})", cut.grain));
    case CutRule::kReplicate:
      return text + "(replicate)";
    case CutRule::kWidths:
      return text + fmt::format("(widths [{}])", fmt::join(cut.widths, ", "));
    case CutRule::kList: {
      std::vector<std::string> lists;
      for (const auto& list : cut.lists) lists.push_back(fmt::format("[{}]", fmt::join(list, ", ")));
      return text + fmt::format("(list [{}])", fmt::join(lists, ", "));
    }
  }
  return text;
}

// Widths of places as widths of units; nothing if a rank has a part of one. [4, 2, 2] is [2, 1, 1] of heads of two.
static std::optional<ShapeExpr> InUnits(const ShapeExpr& cut, std::int64_t size) {
  if (cut.rule != CutRule::kWidths) return std::nullopt;
  std::vector<std::int64_t> widths;
  for (const std::int64_t places : cut.widths) {
    if (places % size != 0) return std::nullopt;
    widths.push_back(places / size);
  }
  return LiftWidths(widths, cut.axes.front());
}

// Rules other than the even one count places, and mean units only where no rank has a part of one.
std::string NumberNames::UnevenLength(std::int64_t number, const ShapeExpr& cut) {
  std::vector<const Known*> of_places;
  for (const Units& units : UnitsOf(number)) {
    if (units.size == 1) of_places.push_back(units.known);
    const std::optional<ShapeExpr> in_units = units.size > 1 ? InUnits(cut, units.size) : std::nullopt;
    if (in_units) return fmt::format("{} * {}", CutText(Use(*units.known), *in_units), units.size);
  }
  return CutText(of_places.size() == 1 ? Use(*of_places.front()) : std::to_string(number), cut);
}

// An even cut fits units of any size that divides what a rank has.
std::string NumberNames::CutLength(std::int64_t number, const ShapeExpr& cut, std::string& doubt) {
  if (cut.rule != CutRule::kEven) return UnevenLength(number, cut);
  const std::vector<Units> readings = UnitsOf(number);
  if (readings.empty()) {
    doubt = fmt::format(
        "are the {} places units, such as heads, that no rank may have a part of? Then write `units@tp * size`",
        number);
    return CutText(std::to_string(number), cut);
  }
  std::vector<std::string> texts;
  for (const Units& units : readings) {
    const std::string text = CutText(units.known->name, cut);
    texts.push_back(units.size == 1 ? text : fmt::format("{} * {}", text, units.size));
  }
  if (texts.size() > 1) {
    doubt = fmt::format("the {} places are `{}`, which is written here, or `{}`", number, texts.front(),
                        fmt::join(texts.begin() + 1, texts.end(), "`, or `"));
  }
  Use(*readings.front().known);
  return texts.front();
}

// A cut factor behind a number stands in parentheses: that is deliberate (docs/language.md, Shapes).
std::string NumberNames::Cut(const ShapeExpr& expr, std::int64_t tp, std::string& doubt) {
  const ShapeExpr& whole = expr.operands[0];
  if (whole.kind == ShapeExpr::Kind::kLength) return CutLength(whole.number, expr, doubt);
  const std::string text = Shape(whole, tp, doubt);
  return CutText(whole.kind == ShapeExpr::Kind::kPad ? text : "(" + text + ")", expr);
}

std::string NumberNames::Shape(const ShapeExpr& expr, std::int64_t tp, std::string& doubt) {
  std::string text;
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
      return Length(expr.number);
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
            factor.kind == ShapeExpr::Kind::kLength ? std::to_string(factor.number) : Shape(factor, tp, doubt);
        text += fmt::format("{}{}", i == 0 ? "" : " * ", grouped ? "(" + one + ")" : one);
      }
      return text;
    case ShapeExpr::Kind::kSum:
      for (const ShapeExpr& part : expr.operands)
        text += fmt::format("{}{}", text.empty() ? "" : " + ", Shape(part, tp, doubt));
      return text;
    case ShapeExpr::Kind::kCut:
      return Cut(expr, tp, doubt);
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
