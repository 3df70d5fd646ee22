#include "runtime/formats/companions.h"

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostCompanionBytes = std::uint64_t{1} << 28;

constexpr const char* kNames[] = {
    "added_tokens.json", "chat_template.jinja",     "config.json",  "generation_config.json",
    "merges.txt",        "special_tokens_map.json", "spiece.model", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",   "vocab.json",   "vocab.txt",
};

}  // namespace

llvm::Expected<std::vector<CompanionFile>> FindCompanions(FileSystem& files, const std::vector<std::string>& folders) {
  std::vector<CompanionFile> companions;
  for (const char* name : kNames) {
    for (const std::string& folder : folders) {
      const std::string path = JoinPath(folder, name);
      UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
      if (kind != PathKind::kFile) continue;
      UCP_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(files, path, kMostCompanionBytes));
      companions.push_back({name, std::move(content)});
      break;
    }
  }
  return companions;
}

}  // namespace ucp
