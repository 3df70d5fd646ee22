#include "compiler/layout/checkpoint_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ucp {
namespace {

std::vector<std::string> Facts(const CheckpointIdentity& source) {
  std::vector<std::string> facts = {source.format};
  if (!source.tag.empty()) facts.push_back("tag " + source.tag);
  if (!source.version.empty()) facts.push_back("DeepSpeed " + source.version);
  if (source.step) facts.push_back(fmt::format("step {:.0f}", *source.step));
  if (!source.ranks.axes.empty()) facts.push_back(ToString(source.ranks));
  return facts;
}

llvm::json::Value TextOrNull(const std::string& text) {
  return text.empty() ? llvm::json::Value(nullptr) : llvm::json::Value(text);
}

}  // namespace

std::vector<std::string> IdentityLines(const CheckpointIdentity& source, const std::string& label, std::size_t width) {
  if (source.folder.empty()) return {};
  std::vector<std::string> lines = {fmt::format("{:<{}}{}", label, width, source.folder)};
  if (!source.format.empty()) lines.push_back(fmt::format("{:<{}}{}", "", width, fmt::join(Facts(source), ", ")));
  return lines;
}

llvm::json::Object IdentityJson(const CheckpointIdentity& source) {
  llvm::json::Object ranks;
  for (const Axis& axis : source.ranks.axes) ranks[axis.name] = axis.size;
  return llvm::json::Object{
      {"folder", source.folder},
      {"tag", TextOrNull(source.tag)},
      {"format", TextOrNull(source.format)},
      {"framework_version", TextOrNull(source.version)},
      {"step", source.step ? llvm::json::Value(*source.step) : llvm::json::Value(nullptr)},
      {"ranks", source.ranks.axes.empty() ? llvm::json::Value(nullptr) : llvm::json::Value(std::move(ranks))}};
}

}  // namespace ucp
