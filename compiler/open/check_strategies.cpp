#include "compiler/open/check_strategies.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "compiler/check/check_spec.h"
#include "compiler/formats/format.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class FormatChecker {
 public:
  FormatChecker(const ast::Strategy& node, DiagnosticSink& sink) : node_(node), sink_(sink) {}

  void Run() {
    if (FindFormat(node_.name.text) != nullptr) {
      Report(node_.name.range,
             fmt::format("`{}` is the name of a format, and a strategy needs one of its own", node_.name.text));
    }
    const ast::Setting* format = Find("format");
    if (format == nullptr || !TextOf(*format)) return;
    strategy_.format = *TextOf(*format);
    if (Refused(CheckFormatName(strategy_.format), format->value.range)) return;
    for (const ast::Setting& setting : node_.settings) {
      auto value = &setting == format ? std::nullopt : TextOf(setting);
      if (!value ||
          Refused(CheckSetting(strategy_.format, setting.key.text, *value, StrategyUse::kLayout), setting.range))
        continue;
      strategy_.options.emplace(setting.key.text, *value);
    }
    if (sound_) Refused(ParseDegrees(strategy_).takeError(), node_.name.range);
  }

 private:
  const ast::Setting* Find(std::string_view key) const {
    for (const ast::Setting& setting : node_.settings) {
      if (setting.key.text == key) return &setting;
    }
    return nullptr;
  }

  static std::optional<std::string> TextOf(const ast::Setting& setting) {
    DiagnosticSink reported_already;
    return SettingText(setting, reported_already);
  }

  bool Refused(llvm::Error error, SourceRange range) {
    if (!error) return false;
    Report(range, TakeFailure(std::move(error)).message);
    sound_ = false;
    return true;
  }

  void Report(SourceRange range, std::string message) {
    sink_.Report({.kind = DiagnosticKind::kBadStrategy, .place = range, .message = std::move(message)});
  }

  const ast::Strategy& node_;
  DiagnosticSink& sink_;
  Strategy strategy_;
  bool sound_ = true;
};

}  // namespace

void CheckAgainstFormats(const ast::File& file, DiagnosticSink& sink) {
  for (const ast::Declaration& declaration : file.declarations) {
    const auto* node = std::get_if<ast::Strategy>(&declaration.node);
    if (node != nullptr) FormatChecker(*node, sink).Run();
  }
}

}  // namespace ucp
