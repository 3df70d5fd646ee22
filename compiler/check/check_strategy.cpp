// A strategy in a file is the same list of settings as one on the command line, so it is kept in that form.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/check_spec.h"
#include "compiler/check/declarations.h"

namespace ucp {
namespace {

std::nullopt_t Refuse(DiagnosticSink& sink, SourceRange range, std::string message, std::string hint) {
  sink.Report(
      {.kind = DiagnosticKind::kBadStrategy, .place = range, .message = std::move(message), .hint = std::move(hint)});
  return std::nullopt;
}

std::optional<std::string> LayersText(const ast::List& list, SourceRange range, DiagnosticSink& sink) {
  if (list.elements.size() < 2) {
    return Refuse(sink, range, "a list of stages has two of them at least", "pp = [8, 6]");
  }
  std::string layers;
  for (const ast::Expr& element : list.elements) {
    const auto* number = std::get_if<ast::Number>(&element.node);
    if (number == nullptr) {
      return Refuse(sink, element.range, "the layers of a stage are a number", "pp = [8, 8, 8, 6]");
    }
    layers += fmt::format("{}{}", layers.empty() ? "" : "+", number->value);
  }
  return layers;
}

std::optional<std::string> PlainText(const ast::Text& text, SourceRange range, DiagnosticSink& sink) {
  if (!text.value.empty() && text.value.find_first_of(",=") == std::string::npos) return text.value;
  return Refuse(sink, range, "a text in a strategy has one character at least, and neither `,` nor `=`", "");
}

// The first setting with this setting's key, if it stands before it.
const ast::Setting* EarlierOf(const ast::Strategy& node, const ast::Setting& setting) {
  auto first = std::find_if(node.settings.begin(), node.settings.end(),
                            [&](const ast::Setting& other) { return other.key.text == setting.key.text; });
  return &*first == &setting ? nullptr : &*first;
}

// The strategy as on the command line, or nothing after reporting.
std::optional<std::string> StrategyText(const ast::Strategy& node, DiagnosticSink& sink) {
  std::string format;
  std::string settings;
  bool sound = true;
  for (const ast::Setting& setting : node.settings) {
    if (const ast::Setting* earlier = EarlierOf(node, setting)) {
      sink.Report({.kind = DiagnosticKind::kDuplicateName,
                   .place = setting.range,
                   .message = fmt::format("this strategy gives `{}` twice", setting.key.text),
                   .notes = {{earlier->range, "given here"}}});
      sound = false;
      continue;
    }
    auto value = SettingText(setting, sink);
    if (!value) {
      sound = false;
    } else if (setting.key.text == "format") {
      format = *value;
    } else {
      settings += fmt::format("{}{}={}", settings.empty() ? ":" : ",", setting.key.text, *value);
    }
  }
  if (format.empty() && sound) {
    return Refuse(sink, node.name.range, "a strategy names its format",
                  fmt::format("strategy {} {{ format deepspeed; … }}", node.name.text));
  }
  if (!sound) return std::nullopt;
  return format + settings;
}

}  // namespace

std::optional<std::string> SettingText(const ast::Setting& setting, DiagnosticSink& sink) {
  const ast::Expr& value = setting.value;
  if (const auto* number = std::get_if<ast::Number>(&value.node)) return std::to_string(number->value);
  if (const auto* name = std::get_if<ast::Name>(&value.node)) return name->text;
  if (const auto* boolean = std::get_if<ast::Boolean>(&value.node)) return boolean->value ? "true" : "false";
  if (const auto* text = std::get_if<ast::Text>(&value.node)) return PlainText(*text, value.range, sink);
  const auto* list = std::get_if<ast::List>(&value.node);
  if (list == nullptr) {
    return Refuse(sink, value.range, fmt::format("`{}` is a number, a word or a text", setting.key.text), "");
  }
  if (setting.key.text == "pp") return LayersText(*list, value.range, sink);
  return Refuse(sink, value.range, "only `pp` takes a list, of how many layers each stage has", "pp = [8, 8, 8, 6]");
}

void CheckStrategies(const ast::File& file, CheckedSpec& spec, DiagnosticSink& sink) {
  for (const ast::Declaration& declaration : file.declarations) {
    const auto* node = std::get_if<ast::Strategy>(&declaration.node);
    if (node == nullptr) continue;
    auto first = std::find_if(spec.strategies.begin(), spec.strategies.end(),
                              [&](const StrategyDeclaration& other) { return other.name == node->name.text; });
    if (first != spec.strategies.end()) {
      sink.Report({.kind = DiagnosticKind::kDuplicateName,
                   .place = node->name.range,
                   .message = fmt::format("strategy `{}` is declared twice", node->name.text),
                   .notes = {{first->range, "the first declaration"}}});
    }
    auto text = StrategyText(*node, sink);
    spec.strategies.push_back({node->name.text, node->name.range, text.value_or("")});
  }
}

}  // namespace ucp
