#include "compiler/formats/recognise/recognise.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/files/destination_names.h"
#include "compiler/formats/recognise/candidates.h"
#include "compiler/formats/recognise/claims.h"
#include "compiler/formats/recognise/links.h"
#include "compiler/formats/recognise/unknown.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

// From a parameter's file in a universal folder, three levels up are the checkpoint.
constexpr int kLevelsAroundFile = 3;

bool AreSameFolder(const fs::path& a, const fs::path& b) { return a.lexically_normal() == b.lexically_normal(); }

std::string WithoutSlash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

std::string FolderAround(const std::string& path) {
  return WithoutSlash((fs::path(path) / "..").lexically_normal().string());
}

// Every answer of one level. One folder may be named in two ways: `.` in it is its own.
llvm::Expected<Claims> ClaimsOn(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(Claims claims, ClaimsOnItself(files, folder));
  for (const auto& format : AllFormats()) {
    if (!format->has_roots()) continue;
    UCP_ASSIGN_OR_RETURN(const Claims named, ClaimsByLatest(files, folder, *format));
    for (const Claim& claim : named) {
      const bool is_there = std::ranges::any_of(claims, [&](const Claim& other) {
        return other.format == claim.format && AreSameFolder(other.folder, claim.folder);
      });
      if (!is_there) claims.push_back(claim);
    }
  }
  return claims;
}

// At the level of the folder itself; nothing if no format knows it.
llvm::Expected<std::optional<Recognised>> RecogniseLevel(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const Claims claims, ClaimsOn(files, folder));
  if (claims.empty()) return std::nullopt;
  UCP_ASSIGN_OR_RETURN(Recognised found, Decide(files, claims, folder));
  return found;
}

// A broken or ambiguous level is for the user to decide: says between what.
llvm::Error NameCandidates(ReadableFileSystem& files, const std::string& folder, llvm::Error error) {
  FailureText failure = TakeFailure(std::move(error));
  llvm::Expected<std::vector<Candidate>> candidates = FindCandidates(files, folder);
  if (!candidates) llvm::consumeError(candidates.takeError());
  if (!candidates || candidates->empty()) return MakeError(failure.code, failure.message);
  return Fail(failure.code, "{} (in `{}` there are {})", failure.message, folder, Listed(*candidates));
}

// A model's folder may hold the checkpoints of the training that made it.
llvm::Error NoteCheckpointsIn(ReadableFileSystem& files, const std::string& folder, Recognised& recognised) {
  UCP_ASSIGN_OR_RETURN(std::vector<Candidate> candidates, FindCandidates(files, folder));
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return std::ranges::all_of(candidate.formats,
                               [](const std::string& name) { return FindFormat(name)->IsModelAlone(); });
  });
  if (candidates.empty()) return llvm::Error::success();
  recognised.remarks.push_back(fmt::format("the model in `{}` is read; name a folder in it to read that instead: {}",
                                           folder, Listed(candidates)));
  return llvm::Error::success();
}

llvm::Expected<std::optional<Recognised>> RecogniseOnlyOneIn(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, FindCandidates(files, folder));
  if (candidates.empty()) return std::nullopt;
  if (candidates.size() > 1) {
    return Fail(ErrorCode::kBadData,
                "`{}` holds {} folders with checkpoints, and no file says which one is meant: {}; name one of them",
                folder, candidates.size(), Listed(candidates));
  }
  const Candidate& only = candidates.front();
  UCP_ASSIGN_OR_RETURN(std::optional<Recognised> found, RecogniseLevel(files, JoinPath(folder, only.name)));
  if (!found || (!only.is_root && found->format->has_roots())) return found;  // A tag needs no word.
  found->remarks.insert(
      found->remarks.begin(),
      fmt::format("`{}` holds no checkpoint itself; its only folder that does, `{}`, is read", folder, only.name));
  return found;
}

llvm::Expected<std::optional<Recognised>> RecogniseFolder(ReadableFileSystem& files, const std::string& folder) {
  llvm::Expected<std::optional<Recognised>> found = RecogniseLevel(files, folder);
  if (!found) return NameCandidates(files, folder, found.takeError());
  if (!*found) return RecogniseOnlyOneIn(files, folder);
  if ((*found)->format->IsModelAlone()) UCP_RETURN_IF_ERROR(NoteCheckpointsIn(files, folder, **found));
  return found;
}

// A latest file, a model in a file of its own, or a file of the nearest checkpoint around it.
llvm::Expected<std::optional<Recognised>> RecogniseFile(ReadableFileSystem& files, const std::string& path) {
  std::string around = FolderAround(path);
  const std::string name = fs::path(path).filename();
  for (const auto& format : AllFormats()) {
    Claims claims;
    if (name == format->latest_file()) {
      UCP_ASSIGN_OR_RETURN(claims, ClaimsByLatest(files, around, *format));
    }
    UCP_ASSIGN_OR_RETURN(std::optional<std::string> meant, format->MeantByFile(files, path));
    if (meant) claims.push_back({format.get(), *meant, ""});
    if (!claims.empty()) return Recognised{claims.front().format, claims.front().folder, {}};
  }
  for (int level = 0; level < kLevelsAroundFile; ++level, around = FolderAround(around)) {
    UCP_ASSIGN_OR_RETURN(Claims claims, ClaimsOnItself(files, around));
    if (level > 0) std::erase_if(claims, [](const Claim& claim) { return claim.format->IsModelAlone(); });
    if (claims.empty()) continue;
    UCP_ASSIGN_OR_RETURN(Recognised found, Decide(files, claims, around));
    return found;
  }
  return std::nullopt;
}

llvm::Error RefuseLinkToUnfinished(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const FileStatus status, files.Status(path));
  return status.is_link ? RefuseUnfinished(status.leads_to) : llvm::Error::success();
}

// Of what was found below the folder that was named: its latest files, and the folders on the way.
llvm::Error NoteLinks(ReadableFileSystem& files, const std::string& root, Recognised& recognised) {
  std::vector<std::string> on_the_way;
  for (const auto& format : AllFormats()) {
    if (format->has_roots()) on_the_way.push_back(JoinPath(root, std::string(format->latest_file())));
  }
  fs::path folder = root;
  for (const fs::path& part : fs::path(recognised.folder).lexically_relative(root)) {
    if (part == ".") continue;
    folder /= part;
    on_the_way.push_back(folder.string());
  }
  for (const std::string& path : on_the_way) {
    UCP_RETURN_IF_ERROR(RefuseLinkToUnfinished(files, path));
    UCP_ASSIGN_OR_RETURN(std::optional<std::string> end, EndOutside(files, root, path));
    if (!end) continue;
    recognised.remarks.push_back(fmt::format("`{}` is a link to `{}`, outside of `{}`", path, *end, root));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error RefuseUnfinished(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  if (error) whole = path;  // Its working folder is gone.
  for (const fs::path& part : whole.lexically_normal()) {
    const std::optional<std::string> name = NameOfPrepared(part.string());
    if (!name) continue;
    return Fail(ErrorCode::kBadData,
                "`{}` belongs to a conversion to `{}` that has not finished; run the same command again with {}, "
                "and name its result",
                path, *name, OptionName(UserOption::kResume));
  }
  return llvm::Error::success();
}

llvm::Expected<Recognised> RecogniseAny(ReadableFileSystem& files, const std::string& path) {
  UCP_RETURN_IF_ERROR(RefuseUnfinished(path));
  UCP_RETURN_IF_ERROR(RefuseLinkToUnfinished(files, path));
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind == PathKind::kMissing) return Fail(ErrorCode::kIo, "`{}` does not exist", path);
  if (kind == PathKind::kFile) {
    UCP_ASSIGN_OR_RETURN(std::optional<Recognised> found, RecogniseFile(files, path));
    if (!found) return RefuseUnknown(files, path);
    return std::move(*found);
  }
  if (kind != PathKind::kDirectory) return RefuseUnknown(files, path);
  const std::string root = WithoutSlash(path);
  UCP_ASSIGN_OR_RETURN(std::optional<Recognised> found, RecogniseFolder(files, root));
  if (!found) return RefuseUnknown(files, path);
  UCP_RETURN_IF_ERROR(NoteLinks(files, root, *found));
  return std::move(*found);
}

}  // namespace ucp
