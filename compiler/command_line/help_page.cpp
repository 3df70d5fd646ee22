// Two columns: names on the left, what they mean on the right, broken between words. A name that is too long for its
// column has a line of its own. Examples, which are indented, stay as they were written.
#include "compiler/command_line/help_page.h"

#include <CLI/Config.hpp>

#include <string_view>

namespace ucp {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kLeftColumn = 26;

// Words on lines of at most 80 columns, where the first line has `begin` columns already and the others that many
// blanks.
std::string Wrapped(std::string_view text, std::size_t begin) {
  std::string lines;
  std::size_t at = begin;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (at > begin && at + 1 + word.size() > kColumns) {
      lines += "\n" + std::string(begin, ' ');
      at = begin;
    } else if (at > begin) {
      lines += ' ';
      ++at;
    }
    lines += word;
    at += word.size();
  }
  return lines;
}

std::string Row(const std::string& left, const std::string& right) {
  std::string row = "  " + left;
  if (right.empty()) return row + "\n";
  row += row.size() < kLeftColumn ? std::string(kLeftColumn - row.size(), ' ') : "\n" + std::string(kLeftColumn, ' ');
  return row + Wrapped(right, kLeftColumn) + "\n";
}

std::string Paragraphs(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    lines += line.starts_with(' ') ? std::string(line) : Wrapped(line, 0);
    lines += '\n';
  }
  return lines;
}

}  // namespace

std::string HelpPage::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return Row(option->get_name(), option->get_description());
  std::string left = make_option_name(option, is_positional);
  if (!option->get_type_name().empty()) left += " " + option->get_type_name();
  if (option->get_required()) left += " (required)";
  return Row(left, option->get_description());
}

std::string HelpPage::make_subcommand(const CLI::App* command) const {
  return Row(command->get_name(), command->get_description());
}

std::string HelpPage::make_description(const CLI::App* app) const { return Paragraphs(app->get_description()); }

std::string HelpPage::make_footer(const CLI::App* app) const { return Paragraphs(app->get_footer()); }

}  // namespace ucp
