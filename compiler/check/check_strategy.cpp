// A strategy in a file is the same list of settings as one on the command line, so it is kept in that form.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

class StrategyChecker {
 public:
  StrategyChecker(const ast::Strategy& node, DiagnosticSink& sink) : node_(node), sink_(sink) {}

  std::optional<std::string> Run() {
    std::string format;
    std::string settings;
    for (std::size_t i = 0; i < node_.settings.size(); ++i) {
      const ast::Setting& setting = node_.settings[i];
      if (!CheckOnce(i)) continue;
      auto value = TextOf(setting.value, setting.key.text);
      if (!value) continue;
      if (setting.key.text == "format") {
        format = *value;
      } else {
        settings += fmt::format("{}{}={}", settings.empty() ? ":" : ",", setting.key.text, *value);
      }
    }
    if (format.empty() && sound_) {
      Report(node_.name.range, "a strategy names its format",
             fmt::format("strategy {} {{ format deepspeed; … }}", node_.name.text));
    }
    if (!sound_) return std::nullopt;
    return format + settings;
  }

 private:
  bool CheckOnce(std::size_t index) {
    const ast::Setting& setting = node_.settings[index];
    for (std::size_t i = 0; i < index; ++i) {
      if (node_.settings[i].key.text != setting.key.text) continue;
      sink_.Report({.kind = DiagnosticKind::kDuplicateName,
                    .place = setting.range,
                    .message = fmt::format("this strategy gives `{}` twice", setting.key.text),
                    .notes = {{node_.settings[i].range, "given here"}}});
      sound_ = false;
      return false;
    }
    return true;
  }

  // A number, a word, a text, true or false; behind `pp` also the layers of each stage.
  std::optional<std::string> TextOf(const ast::Expr& value, const std::string& key) {
    if (const auto* number = std::get_if<ast::Number>(&value.node)) return std::to_string(number->value);
    if (const auto* name = std::get_if<ast::Name>(&value.node)) return name->text;
    if (const auto* boolean = std::get_if<ast::Boolean>(&value.node)) return boolean->value ? "true" : "false";
    if (const auto* text = std::get_if<ast::Text>(&value.node)) return Plain(*text, value.range);
    const auto* list = std::get_if<ast::List>(&value.node);
    if (list == nullptr) return Report(value.range, fmt::format("`{}` is a number, a word or a text", key), "");
    if (key != "pp") {
      return Report(value.range, "only `pp` takes a list, of how many layers each stage has", "pp = [8, 8, 8, 6]");
    }
    return Layers(*list, value.range);
  }

  std::optional<std::string> Plain(const ast::Text& text, SourceRange range) {
    if (!text.value.empty() && text.value.find_first_of(",=") == std::string::npos) return text.value;
    return Report(range, "a text in a strategy has one character at least, and neither `,` nor `=`", "");
  }

  std::optional<std::string> Layers(const ast::List& list, SourceRange range) {
    if (list.elements.size() < 2) return Report(range, "a list of stages has two of them at least", "pp = [8, 6]");
    std::string layers;
    for (const ast::Expr& element : list.elements) {
      const auto* number = std::get_if<ast::Number>(&element.node);
      if (number == nullptr) return Report(element.range, "the layers of a stage are a number", "pp = [8, 8, 8, 6]");
      layers += fmt::format("{}{}", layers.empty() ? "" : "+", number->value);
    }
    return layers;
  }

  std::nullopt_t Report(SourceRange range, std::string message, std::string hint) {
    sink_.Report(
        {.kind = DiagnosticKind::kBadStrategy, .place = range, .message = std::move(message), .hint = std::move(hint)});
    sound_ = false;
    return std::nullopt;
  }

  const ast::Strategy& node_;
  DiagnosticSink& sink_;
  bool sound_ = true;
};

}  // namespace

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
    auto text = StrategyChecker(*node, sink).Run();
    spec.strategies.push_back({node->name.text, node->name.range, text.value_or("")});
  }
}

}  // namespace ucp
