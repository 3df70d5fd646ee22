#include "compiler/formats/companions.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "compiler/formats/objects/file_objects.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostCompanionBytes = std::uint64_t{1} << 28;
constexpr std::int64_t kMostNumbered = 1'000'000;

constexpr std::array<std::string_view, 18> kOfModelNames = {
    "adapter_config.json",
    "added_tokens.json",
    "audio_tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.json",
    "vocab.txt",
};
constexpr std::array<std::string_view, 8> kOfLoopNames = {
    "dl_state_dict.bin", "rng_state.pth", "sampler.bin",        "scaler.pt",
    "scheduler.bin",     "scheduler.pt",  "trainer_state.json", "training_args.bin",
};
// DeepSpeed's own and ours, which a target has or does not need.
constexpr std::array<std::string_view, 6> kOfRoot = {
    "latest",          "latest_universal", "latest_checkpointed_iteration.txt", "ucp_manifest.json",
    "zero_to_fp32.py", "zero_to_torch.py"};

bool Has(auto&& names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

// The N of "<begin>N<end>".
std::optional<std::int64_t> NumberBetween(std::string_view name, std::string_view begin, std::string_view end) {
  if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size()) return std::nullopt;
  return ParseCount(name.substr(begin.size(), name.size() - begin.size() - end.size()), 0, kMostNumbered);
}

bool IsOfLoop(const std::string& name) {
  return Has(kOfLoopNames, name) || RankOfCompanion(name) || NumberBetween(name, "custom_checkpoint_", ".pkl") ||
         NumberBetween(name, "scheduler_", ".bin") || NumberBetween(name, "sampler_", ".bin");
}

bool IsCompanion(CompanionKind kind, const std::string& name) {
  return (kind != CompanionKind::kNone && Has(kOfModelNames, name)) ||
         (kind == CompanionKind::kOfModelAndLoop && IsOfLoop(name));
}

llvm::Expected<bool> IsRoot(ReadableFileSystem& files, const std::string& folder) {
  for (const char* latest : {"latest", "latest_universal"}) {
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(folder, latest)));
    if (kind == PathKind::kFile) return true;
  }
  return false;
}

}  // namespace

llvm::Expected<Companions> FindCompanions(ReadableFileSystem& files, CompanionKind kind, const std::string& checkpoint,
                                          const std::string& named) {
  Companions companions;
  std::vector<std::string> folders = {checkpoint, named};
  std::string root = std::filesystem::path(checkpoint).parent_path().string();
  if (root.empty()) root = ".";
  UCP_ASSIGN_OR_RETURN(bool is_root, IsRoot(files, root));
  if (is_root) folders.push_back(root);
  std::map<std::string, std::string> found;
  std::set<std::string> left_behind;
  for (const std::string& folder : folders) {
    UCP_ASSIGN_OR_RETURN(PathKind is, files.Kind(folder));
    if (is != PathKind::kDirectory) continue;
    UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
    for (const DirectoryEntry& entry : entries) {
      if (entry.is_directory) continue;
      if (IsCompanion(kind, entry.name)) {
        const std::string path = JoinPath(folder, entry.name);
        UCP_ASSIGN_OR_RETURN(PathKind type, files.Kind(path));
        if (type != PathKind::kFile || found.contains(entry.name)) continue;
        UCP_ASSIGN_OR_RETURN(found[entry.name], ReadWholeFile(files, path, kMostCompanionBytes));
      } else if (kind != CompanionKind::kOfModelAndLoop ? IsOfLoop(entry.name)
                                                        : is_root && folder == root && !Has(kOfRoot, entry.name)) {
        left_behind.insert(entry.name);
      }
    }
  }
  for (auto& [name, content] : found) companions.files.push_back({name, std::move(content)});
  companions.left_behind.assign(left_behind.begin(), left_behind.end());
  return companions;
}

bool IsPickleCompanion(const std::string& name) {
  return IsCompanion(CompanionKind::kOfModelAndLoop, name) &&
         (name.ends_with(".bin") || name.ends_with(".pkl") || name.ends_with(".pt") || name.ends_with(".pth"));
}

void TakeOutUnknown(Companions& companions, std::span<const std::string> keep, std::vector<LeftOut>& left_out,
                    std::vector<std::string>& remarks) {
  const objects::KnownObjects known(keep);
  std::erase_if(companions.files, [&](const CompanionFile& file) {
    if (!IsPickleCompanion(file.name)) return false;
    const std::optional<objects::FileObjects> found = objects::ObjectsIn(file.name, file.content, known);
    if (found && found->IsSafe()) return false;
    const std::size_t before = left_out.size();
    if (found) {
      for (const auto& [name, object] : found->by_name) {
        if (!object.is_known) left_out.push_back({file.name, "", name, object.calls});
      }
    }
    if (left_out.size() == before) {
      remarks.push_back(fmt::format("`{}` is left out: what loading it would run is not known: {}", file.name,
                                    !found ? "it is not a file that torch.save wrote"
                                    : !found->odd_instruction.empty()
                                        ? "it has the instruction " + found->odd_instruction
                                        : found->unread));
    }
    return true;
  });
}

bool BelongsBesideCheckpoint(const std::string& name) {
  return IsCompanion(CompanionKind::kOfModelAndLoop, name) || Has(kOfRoot, name);
}

std::optional<std::int64_t> RankOfCompanion(const std::string& name) {
  if (auto rank = NumberBetween(name, "rng_state_", ".pth")) return rank;
  return NumberBetween(name, "random_states_", ".pkl");
}

}  // namespace ucp
