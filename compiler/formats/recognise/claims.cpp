#include "compiler/formats/recognise/claims.h"

#include <fmt/ranges.h>

#include <optional>

#include "compiler/formats/recognise/follow_latest.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

std::string Text(const Claim& claim) {
  const std::string_view format = claim.format->name();
  if (claim.named_by.empty()) return fmt::format("`{}` itself ({})", claim.folder, format);
  return fmt::format("`{}` ({}), which `{}` names", claim.folder, format, claim.named_by);
}

llvm::Error NoteWeightsIn(ReadableFileSystem& files, const std::string& folder, Recognised& recognised) {
  UCP_ASSIGN_OR_RETURN(const Claims claims, ClaimsOnItself(files, folder));
  for (const Claim& claim : claims) {
    if (!claim.format->IsModelAlone()) continue;
    recognised.remarks.push_back(
        fmt::format("`{}` also holds a model of the format {}, which is not read; name its file if it is meant", folder,
                    claim.format->name()));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Claims> ClaimsOnItself(ReadableFileSystem& files, const std::string& folder) {
  Claims claims;
  for (const auto& format : AllFormats()) {
    UCP_ASSIGN_OR_RETURN(bool is_checkpoint, format->IsCheckpoint(files, folder));
    if (is_checkpoint) claims.push_back({format.get(), folder, ""});
  }
  return claims;
}

llvm::Expected<Claims> ClaimsByLatest(ReadableFileSystem& files, const std::string& root, const Format& format) {
  Claims claims;
  auto is_checkpoint = [&](const std::string& folder) -> llvm::Expected<bool> {
    UCP_ASSIGN_OR_RETURN(claims, ClaimsOnItself(files, folder));
    std::erase_if(claims, [](const Claim& claim) { return claim.format->IsModelAlone(); });
    return !claims.empty();
  };
  UCP_ASSIGN_OR_RETURN(std::optional<std::string> named, FollowLatest(files, root, format, is_checkpoint));
  if (!named) return Claims();
  for (Claim& claim : claims) claim.named_by = format.latest_file();
  return claims;
}

llvm::Expected<Recognised> Decide(ReadableFileSystem& files, const Claims& claims, const std::string& level) {
  Claims left = claims;
  if (left.size() > 1) std::erase_if(left, [](const Claim& claim) { return claim.format->IsModelAlone(); });
  if (left.size() != 1) {
    std::vector<std::string> texts;
    for (const Claim& claim : left) texts.push_back(Text(claim));
    return Fail(ErrorCode::kBadData, "`{}` holds {} checkpoints: {}; name the folder that is meant, or a file in it",
                level, left.size(), fmt::join(texts, ", and "));
  }
  Recognised found{left.front().format, left.front().folder, {}};
  if (found.format->IsModelAlone()) return found;
  UCP_RETURN_IF_ERROR(NoteWeightsIn(files, level, found));
  if (found.folder != level) UCP_RETURN_IF_ERROR(NoteWeightsIn(files, found.folder, found));
  return found;
}

}  // namespace ucp
